"""A run of a few seconds, as options and as a configuration."""

from __future__ import annotations

from armagnn.training import NodesConfig

QUICK = ["--hidden", "2", "--stacks", "1", "--epochs", "8", "--patience", "20", "--seeds", "2"]
CONFIG = NodesConfig(hidden=2, stacks=1, epochs=8, patience=20, seeds=2)
