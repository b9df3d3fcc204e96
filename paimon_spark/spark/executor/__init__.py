"""Code of Python workers on executors: writing, rewriting and reading in one task, and its cancellation."""
