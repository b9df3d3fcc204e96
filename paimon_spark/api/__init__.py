"""The Python API that needs no JVM: `paimon_spark.connect` opens a warehouse, everything else hangs on its answer."""
