"""Declaration, argument binding, planning, execution and reporting of procedures."""
