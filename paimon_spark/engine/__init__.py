"""Whole operations on tables: plan, tasks, commit; independent of Spark."""
