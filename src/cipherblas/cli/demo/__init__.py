"""`cipherblas demo`: handwritten digits, recognised by a machine that does not see them."""

from cipherblas.cli.demo.command import demo

__all__ = ["demo"]
