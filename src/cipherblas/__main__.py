"""`python -m cipherblas`: the command line without the installed script."""

from cipherblas.cli import main

if __name__ == "__main__":
    main()
