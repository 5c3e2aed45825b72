"""Tasks: architecture, loss and metrics of each experiment of the paper."""

from armagnn.tasks.graph import GRAPH_RATES, GraphNet, GraphTask
from armagnn.tasks.node import RATES, UNBATCHED, NodeNet, NodeTask, conv_options

__all__ = ["GRAPH_RATES", "RATES", "UNBATCHED", "GraphNet", "GraphTask", "NodeNet", "NodeTask", "conv_options"]
