"""The command line: ``armagnn train | predict | show | data | bench | reproduce | figure | results``."""

from armagnn.cli.app import app


def main() -> None:
    """Run the command line (the console script ``armagnn``)."""
    app(prog_name="armagnn")


__all__ = ["app", "main"]
