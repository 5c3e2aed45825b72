"""Sparse matrices that know their transpose, and the graph operator that everything is written against."""

from armagnn.operators.batches import GraphBatch, GraphBatches, batches_of
from armagnn.operators.csr import CSR
from armagnn.operators.graph import GraphOperator

__all__ = ["CSR", "GraphBatch", "GraphBatches", "GraphOperator", "batches_of"]
