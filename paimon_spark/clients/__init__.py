"""Clients of a Thrift server; they need neither Spark nor the rest of this package."""
