"""The table core: decides and transforms, one bucket in one process at a time; knows neither Spark nor catalogs."""
