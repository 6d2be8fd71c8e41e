"""The command line. Results go to stdout, everything else to stderr.

Exit codes: 0 done; 1 an error of ours, one line on stderr; 2 wrong usage; 130 stopped by Ctrl-C (143 by SIGTERM).
"""

from cipherblas.cli.app import app, main

__all__ = ["app", "main"]
