"""The rules of plaintexts that evaluators ask for, and the members that state them."""
