"""``python -m armagnn``: the same as the console script."""

from armagnn.cli import main

main()
