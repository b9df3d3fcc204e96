"""What may be deleted, and its deletion."""
