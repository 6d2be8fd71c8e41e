"""Queries come as unit vectors: there is nothing to do."""
