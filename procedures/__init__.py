"""The stored procedures: one module per family, loaded through entry points."""
