"""What the bytes mean: pure values, no I/O."""
