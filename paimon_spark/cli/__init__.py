"""The paimon-spark command."""
