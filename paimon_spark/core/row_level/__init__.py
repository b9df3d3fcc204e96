"""Changed rows in, commit messages of DELETE, UPDATE and MERGE out."""
