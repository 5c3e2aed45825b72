"""Comparisons with peers, measured side by side in one run."""

from armagnn.bench.layers import compare_layers
from armagnn.bench.products import compare_products
from armagnn.bench.report import Row, machine, table, write

__all__ = ["Row", "compare_layers", "compare_products", "machine", "table", "write"]
