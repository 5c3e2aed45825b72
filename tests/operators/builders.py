"""Graphs and what builds an operator from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from torch import Tensor
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

from armagnn import GraphOperator
from oracles import Graph

F64 = torch.float64


Builder = Callable[..., GraphOperator]


def sparse_coo(graph: Graph) -> Tensor:
    index = torch.from_numpy(np.stack([graph.target, graph.source]))
    return torch.sparse_coo_tensor(index, graph.edge_weight(), (graph.num_nodes,) * 2, check_invariants=True)


def networkx_graph(graph: Graph, cls: Any) -> Any:
    """Parallel edges of a plain DiGraph are added up by hand; a MultiDiGraph keeps them."""
    g = cls()
    g.add_nodes_from(f"node {i}" for i in range(graph.num_nodes))
    for s, t, w in zip(graph.source, graph.target, graph.weight, strict=True):
        u, v = f"node {s}", f"node {t}"
        if not g.is_multigraph() and g.has_edge(u, v):
            g[u][v]["weight"] += w
        else:
            g.add_edge(u, v, weight=w)
    return g


def data(graph: Graph, **extra: Any) -> Data:
    return Data(edge_index=graph.edge_index, edge_weight=graph.edge_weight(), num_nodes=graph.num_nodes, **extra)


def data_adj(graph: Graph) -> Data:
    return Data(adj_t=sparse_coo(graph).coalesce().to_sparse_csr(), num_nodes=graph.num_nodes)


def edge_index_of_pyg(graph: Graph) -> EdgeIndex:
    return EdgeIndex(graph.edge_index, sparse_size=(graph.num_nodes, graph.num_nodes))


def scipy_coo(graph: Graph, cls: Any) -> Any:
    return cls((graph.weight, (graph.target, graph.source)), shape=(graph.num_nodes,) * 2)


FORMS: dict[str, Callable[[Graph], Any]] = {
    "scipy coo_array": lambda g: scipy_coo(g, scipy.sparse.coo_array),
    "scipy coo_matrix": lambda g: scipy_coo(g, scipy.sparse.coo_matrix),
    "scipy csr_array": lambda g: scipy_coo(g, scipy.sparse.coo_array).tocsr(),
    "scipy csr_matrix": lambda g: scipy_coo(g, scipy.sparse.coo_matrix).tocsr(),
    "scipy csc_array": lambda g: scipy_coo(g, scipy.sparse.coo_array).tocsc(),
    "scipy lil_matrix": lambda g: scipy_coo(g, scipy.sparse.coo_matrix).tolil(),
    "torch coo": sparse_coo,
    "torch coo coalesced": lambda g: sparse_coo(g).coalesce(),
    "torch csr": lambda g: sparse_coo(g).coalesce().to_sparse_csr(),
    "torch csc": lambda g: sparse_coo(g).coalesce().to_sparse_csc(),
    "PyG Data": data,
    "PyG Data with adj_t": data_adj,
    "PyG Batch": lambda g: Batch.from_data_list([data(g)]),
    "networkx DiGraph": lambda g: networkx_graph(g, nx.DiGraph),
    "networkx MultiDiGraph": lambda g: networkx_graph(g, nx.MultiDiGraph),
}
"""What `from_graph` recognises by its type; the adjacency of each is the graph's."""


GO = GraphOperator


BUILDERS: dict[str, Callable[..., GraphOperator]] = {
    "edge_index": lambda g, **o: GO.from_edge_index(g.edge_index, g.num_nodes, g.edge_weight(), **o),
    "edge_index int32": lambda g, **o: GO.from_edge_index(g.edge_index.int(), g.num_nodes, g.edge_weight(), **o),
    "edge_index uint8": lambda g, **o: GO.from_edge_index(g.edge_index.byte(), g.num_nodes, g.edge_weight(), **o),
    "edge_index and a column": lambda g, **o: GO.from_edge_index(
        g.edge_index, g.num_nodes, g.edge_weight().unsqueeze(1), **o
    ),
    "EdgeIndex": lambda g, **o: GO.from_edge_index(edge_index_of_pyg(g), None, g.edge_weight(), **o),
    "numpy": lambda g, **o: GO.from_dense(g.dense(), dtype=F64, **o),
    "list": lambda g, **o: GO.from_dense(g.dense().tolist(), dtype=F64, **o),
    "dense tensor": lambda g, **o: GO.from_dense(torch.from_numpy(g.dense()), **o),
    "from_graph edge_index": lambda g, **o: GO.from_graph(g.edge_index, g.num_nodes, g.edge_weight(), **o),
    "from_graph EdgeIndex": lambda g, **o: GO.from_graph(edge_index_of_pyg(g), None, g.edge_weight(), **o),
}


DIRECT: dict[str, Builder] = {
    "scipy": GO.from_scipy,
    "torch": GO.from_torch_sparse,
    "PyG": GO.from_data,
    "networkx": GO.from_networkx,
}


for _name, _form in FORMS.items():
    _builder = DIRECT[_name.split()[0]]
    BUILDERS[_name] = lambda g, form=_form, builder=_builder, **o: builder(form(g), dtype=F64, **o)
    BUILDERS[f"from_graph {_name}"] = lambda g, form=_form, **o: GO.from_graph(form(g), dtype=F64, **o)
