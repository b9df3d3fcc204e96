"""Catalogs: names to tables."""
