"""The parts of the system tables: columns, rendering, rows."""
