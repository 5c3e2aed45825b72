"""Tasks of the paper: architecture, loss and metric of each."""

from armagnn.tasks.node import ARMANet, accuracy, cross_entropy

__all__ = ["ARMANet", "accuracy", "cross_entropy"]
