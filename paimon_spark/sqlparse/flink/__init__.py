"""Flink's SQL: the statements of Paimon's Flink guide that Spark's grammar lacks."""
