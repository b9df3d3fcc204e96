"""The bucket of a row by its bucket key."""
