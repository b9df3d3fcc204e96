"""Test kit for users: fault injection, models, invariants, conformance suites and trials."""
