"""Tasks: architecture, loss and metrics of each experiment of the paper."""

from armagnn.tasks.graph_task import GRAPH_RATES, GraphNet, GraphTask
from armagnn.tasks.node_task import RATES, NodeNet, NodeTask, conv_options
from armagnn.tasks.signal_task import SIGNAL_RATES, SignalNet, SignalTask, pooled_nodes

__all__ = [
    "GRAPH_RATES",
    "RATES",
    "SIGNAL_RATES",
    "GraphNet",
    "GraphTask",
    "NodeNet",
    "NodeTask",
    "SignalNet",
    "SignalTask",
    "conv_options",
    "pooled_nodes",
]
