"""The table core: planning and transformation, one bucket per process at a time; independent of Spark and catalogs."""
