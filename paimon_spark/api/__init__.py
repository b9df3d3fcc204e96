"""The Python API without a JVM; `paimon_spark.connect` opens a warehouse and is its entry point."""
