"""ORC data files, on Arrow's reader and writer, with timestamps handled here where Arrow is wrong."""
