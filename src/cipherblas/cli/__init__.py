"""The command line. Results go to stdout, everything else to stderr.

Exit codes: 0 done; 1 an error of ours, one line on stderr; 2 wrong usage; 130 stopped by Ctrl-C (143 by SIGTERM).
"""


def main() -> None:
    """The console script. Commands are loaded here: those of other distributions import modules of this package."""
    from cipherblas.cli.app import main as start

    start()
