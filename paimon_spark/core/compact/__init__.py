"""Which files to rewrite (pure), and their rewriting: tasks in, commit messages out."""
