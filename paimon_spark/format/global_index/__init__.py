"""Global index files, whose kinds are `btree` and `bitmap`: rows of a range of row ids, sorted by their value."""
