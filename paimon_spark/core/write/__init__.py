"""Writing: Arrow batches in, data files and commit messages out."""
