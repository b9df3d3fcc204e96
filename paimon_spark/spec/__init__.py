"""The table format as pure values, without I/O."""
