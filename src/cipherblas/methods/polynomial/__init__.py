"""How polynomials of every entry are computed."""
