"""Bytes on the local disk of one process, gone when it ends."""
