"""Test kit shipped to users: models, invariants, golden tables."""
