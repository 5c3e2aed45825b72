"""The command line: ``armagnn train | predict | show | explore | data | bench | reproduce | figure | results``."""

from armagnn.cli.app import app, main

__all__ = ["app", "main"]
