"""SQL parsing; the only package that imports sqlglot."""
