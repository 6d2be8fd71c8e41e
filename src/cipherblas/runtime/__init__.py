"""Runs a program with the methods of its plan."""
