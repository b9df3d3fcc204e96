"""How a procedure is declared, bound, planned, run and reported."""
