"""A split in, Arrow batches out."""
