"""System tables as rows: `t$snapshots`, `t$files` and the others."""
