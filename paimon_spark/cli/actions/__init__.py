"""Actions: procedures as commands, `paimon-spark compact --path …`."""
