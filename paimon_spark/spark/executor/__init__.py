"""What runs in Python workers on executors: writing, rewriting and reading of one task, and its cancellation."""
