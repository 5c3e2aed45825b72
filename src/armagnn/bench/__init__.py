"""Comparisons with peers, measured side by side in one run."""

from armagnn.bench.batches import compare_batches
from armagnn.bench.layers import compare_layers
from armagnn.bench.peers import compare_peers
from armagnn.bench.products import compare_products
from armagnn.bench.report import Comparison, machine, table, write
from armagnn.bench.signals import compare_signals
from armagnn.bench.trials import compare_trials

__all__ = [
    "Comparison",
    "compare_batches",
    "compare_layers",
    "compare_peers",
    "compare_products",
    "compare_signals",
    "compare_trials",
    "machine",
    "table",
    "write",
]
