"""ORC data files: Arrow's reader and writer, and what they cannot do with timestamps."""
