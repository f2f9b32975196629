"""`python -m neophyte`: the command line, also under torchrun."""

from neophyte.cli import main

main()
