"""Catalogs: resolve names to tables."""
