"""Avro: data files, and the container format of manifests."""
