"""Tasks: architecture, loss and metrics of each experiment of the paper."""

from armagnn.tasks.node import RATES, UNBATCHED, NodeNet, NodeTask, conv_options

__all__ = ["RATES", "UNBATCHED", "NodeNet", "NodeTask", "conv_options"]
