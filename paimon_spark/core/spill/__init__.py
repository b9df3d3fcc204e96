"""Spilling: data on the local disk of one process, removed when it ends."""
