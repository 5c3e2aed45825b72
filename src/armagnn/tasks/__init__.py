"""Tasks: architecture, loss and metrics of each experiment of the paper."""

from typing import TYPE_CHECKING, Final

from armagnn.importing import lazily

if TYPE_CHECKING:
    from armagnn.tasks.graph_task import GraphNet, GraphTask
    from armagnn.tasks.node_task import NodeNet, NodeTask, conv_options
    from armagnn.tasks.signal_task import SignalNet, SignalTask, pooled_nodes

RATES: Final = ("input_dropout", "hidden_dropout", "skip_dropout")
"""The drop rates of a `NodeNet`, which may differ from trial to trial."""

GRAPH_RATES: Final = ("hidden_dropout", "skip_dropout")
"""The drop rates of a `GraphNet`, which may differ from trial to trial."""

SIGNAL_RATES: Final = ("hidden_dropout", "skip_dropout")
"""The drop rates of a `SignalNet`, which may differ from trial to trial."""

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

lazily(
    __name__,
    {
        "armagnn.tasks.graph_task": "GraphNet GraphTask",
        "armagnn.tasks.node_task": "NodeNet NodeTask conv_options",
        "armagnn.tasks.signal_task": "SignalNet SignalTask pooled_nodes",
    },
)
