"""Row-level changes: commit messages of DELETE, UPDATE and MERGE from changed rows."""
