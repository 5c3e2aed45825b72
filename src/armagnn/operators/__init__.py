"""Sparse matrices that know their transpose, and the graph operator that everything is written against."""

from armagnn.operators.batches import GraphBatch, GraphBatches, batches_of
from armagnn.operators.csr import CSR
from armagnn.operators.graclus import Coarsening, coarsen
from armagnn.operators.graph import GraphOperator
from armagnn.operators.neighbours import knn_graph
from armagnn.operators.reordering import NodeOrder
from armagnn.operators.toy_graphs import grid, ring, sensor

__all__ = [
    "CSR",
    "Coarsening",
    "GraphBatch",
    "GraphBatches",
    "GraphOperator",
    "NodeOrder",
    "batches_of",
    "coarsen",
    "grid",
    "knn_graph",
    "ring",
    "sensor",
]
