"""The command line: ``armagnn train | predict | show | explore | data | bench | reproduce | figure | results``."""

from armagnn import processors
from armagnn.cli.app import app


def main() -> None:
    """Run the command line (the console script ``armagnn``)."""
    processors.prepare()
    app(prog_name="armagnn")


__all__ = ["app", "main"]
