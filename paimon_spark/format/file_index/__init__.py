"""File indexes of data files: the container, and one module for each kind (docs/spec/storage.md, section 14.3)."""
