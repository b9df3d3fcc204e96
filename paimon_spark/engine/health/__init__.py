"""The state of a table seen through its metadata: what is wrong, what happened, what holds a file."""
