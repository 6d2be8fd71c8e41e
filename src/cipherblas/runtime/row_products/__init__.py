"""Kinds of products of matrices by rows, one file each; `table` lists them."""
