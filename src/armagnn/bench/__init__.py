"""Comparisons with peers, measured side by side in one run."""

from armagnn.bench.comparison import Comparison, machine, table, write
from armagnn.bench.copy_bandwidth import compare_bandwidth
from armagnn.bench.cpu_rows import compare_layers, compare_peers, compare_products, compare_trials
from armagnn.bench.mnist_signals import compare_signals
from armagnn.bench.molecule_batches import compare_batches

__all__ = [
    "Comparison",
    "compare_bandwidth",
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
