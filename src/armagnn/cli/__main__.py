"""``python -m armagnn.cli``: the same as the console script."""

from armagnn.cli import main

main()
