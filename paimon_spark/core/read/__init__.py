"""Reading: a split in, Arrow batches out."""
