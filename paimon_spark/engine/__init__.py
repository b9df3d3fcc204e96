"""Whole operations: plan, tasks, commit; knows tables, not Spark."""
