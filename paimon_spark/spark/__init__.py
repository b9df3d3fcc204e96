"""Spark on the Python side: sessions, runner, executor functions."""
