"""Manifests, manifest lists and index manifests: bytes in, entries or columns of entries out, and back."""
