"""The candidates for ``op @ x`` on a processor, side by side: why the kernel is what it is."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from armagnn import GraphOperator
from armagnn.bench.problems import random_graph
from armagnn.bench.report import Comparison
from armagnn.bench.timing import check_sizes, medians
from armagnn.errors import ParameterError, shown


def compare_products(widths: tuple[int, ...] = (16, 50, 64, 192), rounds: int = 5) -> Iterator[Comparison]:
    """Measure ``op @ x`` against torch's own products on 20,000 nodes and 560,000 nonzeros."""
    check_sizes(rounds=rounds)
    if not isinstance(widths, tuple | list):
        raise ParameterError(f"widths must be a tuple of numbers of features, got {shown(widths)}.")
    for width in widths:
        check_sizes(width=width)
    nodes = 20_000
    op = GraphOperator.from_edge_index(random_graph(nodes, 560_000), nodes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        matrix = torch.sparse_csr_tensor(op.rowptr.long(), op.col.long(), op.value, op.shape, check_invariants=False)
    for width in widths:
        x = torch.randn(nodes, width, generator=torch.Generator().manual_seed(width))
        peers: dict[str, Callable[[], Tensor]] = {
            "torch CSR @ x": lambda x=x: matrix @ x,  # type: ignore[misc]
            "torch.sparse.mm(reduce='sum')": lambda x=x: torch.sparse.mm(matrix, x, reduce="sum"),  # type: ignore[misc]
        }
        times = medians({"ours": lambda x=x: op @ x, **peers}, rounds)  # type: ignore[misc]
        for name in peers:
            yield Comparison(
                f"op @ x, F={width}, against {name}", "ms", times["ours"], times[name], times[name] / times["ours"]
            )
