"""Bytes in and out: one FileIO protocol, one adapter per store."""
