"""The `paimon-spark` command."""
