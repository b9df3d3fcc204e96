"""Avro files: data files, and the container of manifests."""
