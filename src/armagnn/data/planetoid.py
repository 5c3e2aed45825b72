"""The Planetoid release (``ind.NAME.x`` and seven more) as the arrays of our file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from armagnn.data.arrays import Arrays
from armagnn.data.checks import NO_LABEL
from armagnn.data.restricted import read_pickle
from armagnn.data.undirected import both_ways
from armagnn.errors import DataError

PICKLES: Final = ("x", "tx", "allx", "y", "ty", "ally", "graph")
VALIDATION: Final = 500  # nodes after those of training


def convert_planetoid(name: str, get: Callable[[str], bytes]) -> Arrays:
    """Convert the files ``ind.NAME.*``, whose bytes `get` returns by file name.

    ``allx`` and ``ally`` have the nodes 0 .. n-1; ``tx`` and ``ty`` those that ``test.index`` names, in its order. A
    node that is nowhere (Citeseer has 15) becomes a row of zeros without a label. The training nodes are the rows of
    ``x``, the validation nodes the next 500, the test nodes those of ``test.index``.
    """
    parts = {part: read_pickle(get(f"ind.{name}.{part}"), f"ind.{name}.{part}") for part in PICKLES}
    try:
        return _arrays(parts, _test_index(get(f"ind.{name}.test.index")))
    except (ValueError, TypeError, AttributeError, IndexError, KeyError, OverflowError) as error:
        raise DataError(f"ind.{name}.*: the files do not fit together ({error}).") from error


def _test_index(content: bytes) -> NDArray[np.int64]:
    ids = np.array([int(line) for line in content.decode("ascii").split()], dtype=np.int64)
    if ids.size == 0 or np.unique(ids).size != ids.size or ids.min() < 0:
        raise ValueError("test.index must name each test node once")
    return ids


def _arrays(parts: dict[str, Any], test: NDArray[np.int64]) -> Arrays:
    known, train = parts["allx"].shape[0], parts["x"].shape[0]
    num_nodes = int(max(test.max() + 1, known))
    if test.min() < known:
        raise ValueError(f"test.index names node {test.min()}, which is a row of allx")
    if num_nodes > 10 * (known + test.size):
        raise ValueError(f"test.index names node {num_nodes - 1} of some {known + test.size}")
    rows = np.concatenate([np.arange(known), test])
    features = sp.vstack([parts["allx"], parts["tx"]], format="coo")
    x = sp.csr_array(
        (features.data.astype(np.float32), (rows[features.row], features.col)), shape=(num_nodes, features.shape[1])
    )
    x.sum_duplicates()
    x.eliminate_zeros()
    one_hot = np.vstack([parts["ally"], parts["ty"]])
    y = np.full(num_nodes, NO_LABEL, dtype=np.int8)
    y[rows] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), NO_LABEL)
    if not np.array_equal(parts["y"], parts["ally"][:train]):
        raise ValueError("y is not the beginning of ally")
    edges = [(node, other) for node, others in parts["graph"].items() for other in others]
    edge_index = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    if edge_index.size and (edge_index.min() < 0 or edge_index.max() >= num_nodes):
        raise ValueError(f"graph names nodes {edge_index.min()} .. {edge_index.max()} of {num_nodes}")
    return {
        "x_indptr": x.indptr.astype(np.int32),
        "x_indices": x.indices.astype(np.int16 if x.shape[1] < 2**15 else np.int32),
        "x_data": x.data,
        "x_shape": np.array(x.shape, dtype=np.int32),
        "edge_index": both_ways(edge_index, num_nodes).astype(np.int32),
        "y": y,
        "train_idx": np.arange(train, dtype=np.int32),
        "val_idx": np.arange(train, min(train + VALIDATION, known), dtype=np.int32),
        "test_idx": np.sort(test).astype(np.int32),
    }
