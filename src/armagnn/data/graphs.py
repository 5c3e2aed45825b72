"""What a set of graphs is, and how it is read from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from armagnn import checks
from armagnn.arguments import checked
from armagnn.data.arrays import Header, agree, as_array, digest_of, on_device
from armagnn.errors import ParameterError, ShapeError

if TYPE_CHECKING:
    from armagnn.data.tables.encoding import TableEncoder
    from armagnn.data.tables.frame import NodeIds

FEATURE_KINDS: Final = ("degree", "clustering", "labels", "attributes")
"""What :func:`armagnn.data.node_features` can make of a set of graphs."""


@dataclass(frozen=True, eq=False)
class GraphsDataset:
    """G graphs side by side, with one label or T real targets each: graph classification and graph regression.

    Those of your own are made by :meth:`of`, which checks them; the constructor trusts what it is given.

    Attributes:
        name: the name it was loaded by (or the path of its file).
        edge_index: (2, E) int64, both directions of every edge, ids of nodes counted over all graphs.
        ptr: (G + 1,) int64; graph g has the nodes ``ptr[g] .. ptr[g + 1] - 1``.
        y: (G,) int64 labels 0 .. C-1 (-1 where new graphs have none yet); or (G, T) float32 targets of a regression.
        num_classes: C; 0 for a regression.
        sha256: checksum of the file (and of what :meth:`select` took); two datasets with one checksum are the same.
        node_labels: (N,) int64, the raw label of each node, where there are such.
        node_attr: (N, F) float32, the raw attributes of each node, where there are such.
        edge_labels: (E,) int64, the raw label of each directed edge, where there are such.
        edge_weight: (E,) float32, the weight of each directed edge, the same in both directions; None if all are 1.
        split: (G,) int64, 0 train, 1 validation, 2 test, where the file has a split.
        provenance: what to call the data in results.
        targets: the T names of the targets of a regression.
        class_values: the raw label of each class 0 .. C-1, where they are other numbers in the file.
        feature_kinds: which of :data:`FEATURE_KINDS` the nodes are described by, unless one asks for others.
        notes: what was done with your own file to make this of it, in sentences.
        class_names: the names of the classes in your tables, in place of `class_values`.
        encoder: of your tables: how the columns of nodes became `node_attr`.
        ids: of your tables: the id of each graph.

    Example:
        >>> from armagnn.data import load_graphs
        >>> mutag = load_graphs("mutag")
        >>> mutag
        GraphsDataset('mutag', graphs=188, nodes=3371, edges=7442, classes=2)
        >>> mutag.select([3, 0]).ptr
        tensor([ 0, 19, 36])
    """

    name: str
    edge_index: Tensor
    ptr: Tensor
    y: Tensor
    num_classes: int
    sha256: str
    node_labels: Tensor | None = None
    node_attr: Tensor | None = None
    edge_labels: Tensor | None = None
    edge_weight: Tensor | None = None
    split: Tensor | None = None
    provenance: str = ""
    targets: tuple[str, ...] = ()
    class_values: tuple[int, ...] | None = None
    feature_kinds: tuple[str, ...] = FEATURE_KINDS
    notes: tuple[str, ...] = ()
    class_names: tuple[str, ...] = ()
    encoder: TableEncoder | None = None
    ids: NodeIds | None = None

    def __post_init__(self) -> None:
        checks.tensor("edge_index", self.edge_index, 2)
        checks.tensor("ptr", self.ptr, 1)
        checks.tensor("y", self.y, 1, 2)
        for name in ("node_labels", "node_attr", "edge_labels", "edge_weight", "split"):
            if getattr(self, name) is not None:
                checks.tensor(name, getattr(self, name))

    @classmethod
    def of(
        cls,
        edge_index: Any,
        ptr: Any,
        y: Any = None,
        *,
        node_labels: Any = None,
        node_attr: Any = None,
        edge_labels: Any = None,
        edge_weight: Any = None,
        split: Any = None,
    ) -> GraphsDataset:
        """Make a dataset of your own, from tensors, arrays or lists; whatever is wrong with them is said here.

        Args:
            edge_index: (2, E), ids of nodes counted over all graphs. Edges are undirected: a direction that is missing
                is added, an edge that is listed again counts once.
            ptr: (G + 1,); graph g has the nodes ``ptr[g] .. ptr[g + 1] - 1``, at least one.
            y: (G,) integers 0 .. C-1, the classes; or (G,) or (G, T) floats, the targets of a regression. None of new
                graphs.
            node_labels: (N,) integers.
            node_attr: (N, F) finite numbers.
            edge_labels: (E,) integers.
            edge_weight: (E,) numbers, not negative, one for both directions of an edge.
            split: (G,) 0 train, 1 validation, 2 test.

        Example:
            >>> GraphsDataset.of([[0, 2, 3], [1, 3, 4]], [0, 2, 5], [0, 1])
            GraphsDataset('graphs', graphs=2, nodes=5, edges=6, classes=2)
        """

        from armagnn.data.graph_files import LABELLED, graphs_of

        optional = {
            "y": y, "node_labels": node_labels, "node_attr": node_attr, "edge_labels": edge_labels,
            "edge_weight": edge_weight, "split": split,
        }  # fmt: skip
        given = {"edge_index": edge_index, "ptr": ptr} | {n: v for n, v in optional.items() if v is not None}
        arrays = {name: as_array(name, value) for name, value in given.items()}
        agree({name: Header(array.shape, array.dtype) for name, array in arrays.items()}, LABELLED, "graphs")
        made = graphs_of(arrays, name="graphs", source="graphs", sha256="", labelled=y is not None)
        return replace(made, sha256=digest_of(arrays))

    @classmethod
    @checked
    def from_tables(
        cls, graphs: Any, nodes: Any, edges: Any, target: str | Sequence[str] = (), **options: Any
    ) -> GraphsDataset:
        """Make a set of graphs of three tables, each in a form that `NodeDataset.from_tables` takes.

        Args:
            graphs: a row for each graph: its id (``graph`` or ``id``) and its target.
            nodes: a row for each node: its graph (``graph``), its id, its features.
            edges: a row for each edge: its ends, perhaps a weight; and the graph, where ids count within a graph.
            target: the column to learn: classes or a number; several columns are several numbers.
            **options: ``task``, ``ignore`` and ``name``, as `NodeDataset.from_tables` has them.

        Example:
            >>> graphs = {"graph": ["a", "b"], "label": ["ring", "path"]}
            >>> nodes = {"graph": list("aaabb"), "id": range(5), "colour": [1.0, 2.0, 3.0, 1.0, 2.0]}
            >>> GraphsDataset.from_tables(graphs, nodes, {"source": [0, 1, 2, 3], "target": [1, 2, 0, 4]})
            GraphsDataset('graphs', graphs=2, nodes=5, edges=8, classes=2)
        """
        from armagnn.data.tables.graph_tables import graphs_dataset

        for option in options:
            checks.choice("option", option, ("task", "ignore", "name"))
        return graphs_dataset(graphs, nodes, edges, target=target, **options)

    @classmethod
    @checked
    def from_pyg(cls, items: Iterable[Any], *, name: str = "pyg") -> GraphsDataset:
        """Make a set of graphs of a list of ``torch_geometric.data.Data``, or a dataset of PyG.

        x become attributes of nodes; integers in y are classes, floats numbers; weights are `edge_weight`, or an
        `edge_attr` of one column.

        Example:
            >>> from torch_geometric.data import Data
            >>> edge = torch.tensor([[0, 1], [1, 0]])
            >>> GraphsDataset.from_pyg([Data(x=torch.ones(2, 3), edge_index=edge, y=torch.tensor([c])) for c in (0, 1)])
            GraphsDataset('pyg', graphs=2, nodes=4, edges=4, classes=2)
        """
        from armagnn.data.other_libraries import graphs_from_pyg

        return graphs_from_pyg(items, name)

    @classmethod
    @checked
    def from_networkx(
        cls, items: Sequence[Any], y: Sequence[Any], *, attributes: Sequence[str] | None = None, name: str = "networkx"
    ) -> GraphsDataset:
        """Make a set of graphs of a list of networkx graphs.

        Args:
            items: the graphs, whose directions do not count.
            y: the class or the number of each.
            attributes: the attributes of nodes that become features as columns of a table do; by default all.
            name: of the dataset.

        Example:
            >>> import networkx
            >>> GraphsDataset.from_networkx([networkx.path_graph(3), networkx.cycle_graph(3)], ["path", "ring"])
            GraphsDataset('networkx', graphs=2, nodes=6, edges=10, classes=2)
        """
        from armagnn.data.other_libraries import tables_of_networkx

        nodes, edges = tables_of_networkx(items, attributes)
        if len(y) != len(items):
            raise ShapeError(f"y must hold one target for each of {len(items)} graphs, got {len(y)}.")
        graphs = {"graph": range(len(items)), "target": list(y)}
        return cls.from_tables(graphs, nodes, edges, "target", name=name)

    @property
    def regression(self) -> bool:
        """Are there real targets (y is (G, T) float32) rather than classes (y is (G,) int64)?"""
        return self.y.is_floating_point()

    @property
    def num_outputs(self) -> int:
        """What a network has to put out for each graph: T numbers of a regression, or scores of C classes."""
        return int(self.y.shape[1]) if self.regression else self.num_classes

    @property
    def num_graphs(self) -> int:
        """G."""
        return len(self.ptr) - 1

    @property
    def num_nodes(self) -> int:
        """N, of all graphs together."""
        return int(self.ptr[-1])

    @property
    def graph(self) -> Tensor:
        """(N,) int64, the graph 0 .. G-1 of each node."""
        return torch.repeat_interleave(torch.arange(self.num_graphs, device=self.ptr.device), self.ptr.diff())

    def select(self, ids: Tensor | Sequence[int]) -> GraphsDataset:
        """Return the graphs `ids`, in that order (an id may come twice), with nodes renumbered from 0.

        Edges come graph by graph, in the order that they have within their graph here. Classes and their number stay,
        even if none of the graphs is of some class.
        """
        ids = checks.ids("ids", ids, self.num_graphs).to(self.ptr.device)
        if not ids.numel():
            raise ParameterError("ids is empty: a set has one graph or more.")
        nodes, ptr = slices(self.ptr, ids)
        edges, edge_ptr = self._edges_of(ids)
        shift = torch.repeat_interleave(ptr[:-1] - self.ptr[ids], edge_ptr.diff(), output_size=len(edges))
        number = hashlib.sha256(ids.cpu().numpy().tobytes()).hexdigest()
        of = {"node_labels": nodes, "node_attr": nodes, "edge_labels": edges, "edge_weight": edges, "split": ids}
        taken: dict[str, Any] = {name: each[of[name]] for name in of if (each := getattr(self, name)) is not None}
        taken |= {} if self.ids is None else {"ids": self.ids.part(ids.tolist())}
        return replace(
            self,
            edge_index=self.edge_index[:, edges] + shift,
            ptr=ptr,
            y=self.y[ids],
            sha256=hashlib.sha256(f"{self.sha256} select {number}".encode()).hexdigest(),
            **taken,
        )

    def _edges_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the edges of the graphs `ids`, one graph after the other, and where each graph's begin, (n + 1,)."""
        owner = torch.searchsorted(self.ptr, self.edge_index[0].contiguous(), right=True) - 1
        ptr = torch.zeros_like(self.ptr)
        torch.cumsum(torch.bincount(owner, minlength=self.num_graphs), 0, out=ptr[1:])
        edges, edge_ptr = slices(ptr, ids)
        if not bool((owner[1:] >= owner[:-1]).all()):  # the file mixes the edges of different graphs
            edges = owner.argsort(stable=True)[edges]
        return edges, edge_ptr

    def to(self, device: torch.device | str) -> GraphsDataset:
        """The same dataset with every tensor on `device`."""
        return on_device(self, device)

    def __len__(self) -> int:
        return self.num_graphs

    def __repr__(self) -> str:
        what = f"targets={self.num_outputs}" if self.regression else f"classes={self.num_classes}"
        return (
            f"GraphsDataset({self.name!r}, graphs={self.num_graphs}, nodes={self.num_nodes}, "
            f"edges={self.edge_index.shape[1]}, {what})"
        )


def slices(ptr: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the numbers ``ptr[i] .. ptr[i + 1] - 1`` for each i of `ids`, one after the other, and their own ptr."""
    count = ptr[ids + 1] - ptr[ids]
    own = torch.zeros(len(ids) + 1, dtype=ptr.dtype, device=ptr.device)
    torch.cumsum(count, 0, out=own[1:])
    total = int(own[-1])
    shift = torch.repeat_interleave(ptr[ids] - own[:-1], count, output_size=total)
    return torch.arange(total, device=ptr.device) + shift, own
