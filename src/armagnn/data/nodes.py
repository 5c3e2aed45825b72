"""What a dataset of labelled nodes is, and how it is read from a file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import choice, instance, tensor
from armagnn.data.arrays import on_device
from armagnn.data.graphs import slices
from armagnn.data.scaling import Features, restandardised
from armagnn.data.splits import check_seed, random_split
from armagnn.errors import GraphError, ParameterError
from armagnn.operators import CSR, GraphOperator
from armagnn.operators.building import Kind

if TYPE_CHECKING:
    from armagnn.data.tables.frame import NodeIds
    from armagnn.data.tables.table_schema import TableSchema

SPLITS: Final = ("train", "val", "test")


# eq=False: comparing tensors gives tensors, so datasets are compared by `sha256`, not by ==.
@dataclass(frozen=True, eq=False)
class NodeDataset:
    """One graph, X, labels or real targets y, and the split of its nodes: node classification and node regression.

    Several graphs are one graph of several components; then `graph` tells them apart, and :meth:`part` takes the
    graphs of one split for inductive learning.

    Attributes:
        name: the name it was loaded by (or the path of its file).
        x: node features X, (N, F), float32, sparse or dense, scaled as `features` says.
        edge_index: (2, E) int64, source and target of every directed edge; both directions of each.
        y: (N,) int64 labels 0 .. C-1, or -1 for a node without a label; or, where a node may have many labels,
            (N, C) float32 of 0 and 1, zero for a node whose labels are unknown; or (N,) float32, the real targets of a
            regression, NaN for a node without a target.
        train_idx: ids of the labelled nodes to learn from.
        val_idx: ids of the labelled nodes to choose on.
        test_idx: ids of the labelled nodes to report on.
        num_classes: C; 0 for a regression.
        sha256: checksum of the file (and of what was done to it, by :meth:`part` or :meth:`with_random_split` say);
            two datasets with one checksum are the same.
        graph: (N,) int64, the graph 0 .. G-1 of each node, where there are several.
        provenance: what to call the data in results, e.g. ``PPI (rebuilt: 98.75 % of node labels)``.
        edge_weight: (E,) float32, the weight of each directed edge, the same in both directions; None if all are 1.
        features: how x is scaled: "rows", "standardise" or "none"; see :data:`armagnn.data.scaling.FEATURES`.
        notes: what was done with your own file or tables to make this of them, in sentences.
        ids: the id of each node in your tables.
        schema: how your tables were read, and the names of their classes.
        metric: what the benchmark of the data judges by, "accuracy" or "roc_auc".
        split_parts: (S, N) int8, of data with S fixed splits: the part of each node in each of them, 0 for train, 1 for
            val, 2 for test, -1 for none.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> cora.num_nodes, cora.num_features, cora.num_classes
        (2708, 1433, 7)
        >>> cora.with_random_split(seed=3)
        NodeDataset('cora, random split 3', nodes=2708, edges=10556, features=1433, classes=7, split=140/500/1000)
    """

    name: str
    x: Tensor | CSR
    edge_index: Tensor
    y: Tensor
    train_idx: Tensor
    val_idx: Tensor
    test_idx: Tensor
    num_classes: int
    sha256: str
    graph: Tensor | None = None
    provenance: str = ""
    edge_weight: Tensor | None = None
    features: str = "none"
    notes: tuple[str, ...] = ()
    ids: NodeIds | None = None
    schema: TableSchema | None = None
    metric: str = "accuracy"
    split_parts: Tensor | None = None

    @classmethod
    @checked
    def from_tables(cls, nodes: Any, edges: Any, target: str | Sequence[str] = (), **options: Any) -> NodeDataset:
        """Make a dataset of a table of nodes and a table of edges.

        A table is the path of a CSV file (of any usual delimiter, also gzipped) or a Parquet file, a DataFrame of
        pandas or polars, a ``pyarrow.Table``, or a dict of arrays. Columns that are no id, target or split become
        features: see `armagnn.data.tables.encoding`. `notes` say what was recognised.

        Args:
            nodes: one row for each node: its id, its features, its target (missing: unknown).
            edges: one row for each edge: the ids of its ends, perhaps a weight.
            target: the column to learn: classes, lists of labels, or a number; or several columns of 0 and 1. By
                default a column that is called label, target, class or y.
            **options: how to read them: the fields of `armagnn.data.tables.node_tables.TableOptions`, which are the
                options of ``armagnn train nodes``, and ``name``.

        Example:
            >>> nodes = {"id": list("abcdefgh"), "age": range(8), "label": ["x", "y"] * 4}
            >>> NodeDataset.from_tables(nodes, {"source": list("abcdefg"), "target": list("bcdefgh")}, "label")
            NodeDataset('tables', nodes=8, edges=14, features=1, classes=2, split=4/2/2)
        """
        from armagnn.data.tables.node_tables import TableOptions, node_dataset

        name = instance("name", options.pop("name", ""), str, "a text")
        known = TableOptions.__dataclass_fields__
        for option in options:
            choice("option", option, known)
        return node_dataset(nodes, edges, TableOptions(target=target, **options), name)  # type: ignore[arg-type]

    @classmethod
    @checked
    def from_pyg(
        cls,
        data: Any,
        *,
        directed: bool = False,
        features: Features = "none",
        val: float = 0.2,
        test: float = 0.2,
        seed: int = 0,
        split: int = 0,
        name: str = "pyg",
    ) -> NodeDataset:
        """Make a dataset of a ``torch_geometric.data.Data`` with x, edge_index, y and perhaps masks.

        Integers in y are classes (negative: unknown), floats a number (NaN: unknown), several columns of 0 and 1 are
        labels. Without masks the split is drawn, by class.

        Args:
            data: the graph.
            directed: keep the direction of edges; otherwise a direction that is missing is added.
            features: how x is scaled; see :data:`armagnn.data.scaling.FEATURES`.
            val: without masks, the share (or number) of nodes for validation.
            test: likewise for the test.
            seed: of the split.
            split: of masks with several columns, the one to take.
            name: of the dataset.

        Example:
            >>> from torch_geometric.data import Data
            >>> ring = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
            >>> NodeDataset.from_pyg(Data(x=torch.eye(6), edge_index=ring, y=torch.tensor([0, 1, 0, 1, 0, 1])))
            NodeDataset('pyg', nodes=6, edges=12, features=6, classes=2, split=4/1/1)
        """
        from armagnn.data.other_libraries import nodes_from_pyg

        return nodes_from_pyg(
            data, directed=directed, features=features, val=val, test=test, seed=seed, split=split, name=name
        )

    @classmethod
    @checked
    def from_networkx(
        cls, graph: Any, target: str | Sequence[str] = (), *, attributes: Sequence[str] | None = None, **options: Any
    ) -> NodeDataset:
        """Make a dataset of a networkx graph whose nodes have attributes, one of them the target.

        The attributes of nodes become features as columns of a table do. An edge's ``weight`` counts if all have one.

        Args:
            graph: the graph; a directed one keeps its directions.
            target: the attribute to learn; by default one that is called label, target, class or y.
            attributes: the attributes of nodes that are read, by default all.
            **options: see :meth:`from_tables`.

        Example:
            >>> import networkx
            >>> club = networkx.karate_club_graph()
            >>> NodeDataset.from_networkx(club, "club")
            NodeDataset('networkx', nodes=34, edges=156, features=1, classes=2, split=20/7/7)
        """
        from armagnn.data.other_libraries import tables_of_networkx

        nodes, edges = tables_of_networkx([graph], attributes)
        nodes.pop("graph"), edges.pop("graph")
        options = {"name": "networkx", "directed": graph.is_directed(), "id": "node"} | options
        return cls.from_tables(nodes, edges, target, **options)

    def __post_init__(self) -> None:
        if not isinstance(self.x, CSR):
            tensor("x", self.x, 2)
        tensor("edge_index", self.edge_index, 2)
        tensor("y", self.y, 1, 2)
        for name in SPLITS:
            tensor(f"{name}_idx", self.idx(name), 1)

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.x.shape[0])

    @property
    def num_features(self) -> int:
        """F."""
        return int(self.x.shape[1])

    @property
    def num_graphs(self) -> int:
        """G; 1 where the dataset does not tell graphs apart."""
        return 1 if self.graph is None else int(self.graph.max()) + 1

    @property
    def multilabel(self) -> bool:
        """May a node have many labels (y is (N, C), 0 or 1) rather than one (y is (N,))?"""
        return self.y.dim() == 2

    @property
    def regression(self) -> bool:
        """Are there real targets (y is (N,) float32) rather than classes?"""
        return self.y.dim() == 1 and self.y.is_floating_point()

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes: those of your tables, else 0 .. C-1; none of a regression."""
        return tuple(map(str, range(self.num_classes))) if self.schema is None else self.schema.classes

    @property
    def num_outputs(self) -> int:
        """What a network has to put out for each node: the target of a regression, or scores of C classes."""
        return 1 if self.regression else self.num_classes

    def operator(self, kind: Kind = "arma", **options: Any) -> GraphOperator:
        """The graph as an operator on the device of the dataset, D^-1/2 A D^-1/2 by default.

        The options are those of :meth:`GraphOperator.from_edge_index`; weights are those of the edges.

        Example:
            >>> from armagnn.data import load
            >>> load("cora").operator("gcn", gamma=0.5)
            GraphOperator('gcn', 2708 nodes, nnz=13264, float32, symmetric)
        """
        options = {"edge_weight": self.edge_weight} | options
        return GraphOperator.from_edge_index(self.edge_index, num_nodes=self.num_nodes, kind=kind, **options)

    def idx(self, split: str) -> Tensor:
        """The ids of the labelled nodes of ``"train"``, ``"val"`` or ``"test"``."""
        ids: Tensor = getattr(self, f"{choice('split', split, SPLITS)}_idx")
        return ids

    def part(self, split: str) -> NodeDataset:
        """The graphs that hold nodes of ``"train"``, ``"val"`` or ``"test"``, with all their nodes, renumbered.

        A training step on ``part("train")`` neither sees nor pays for the graphs of validation and test. Nodes keep
        their order; the ids of the other splits that lie in these graphs are kept, too (none do in PPI).
        """
        ids = self.idx(split)
        if self.graph is None:
            raise GraphError(f"{self.name} is one graph: part({split!r}) needs a dataset of several graphs, as PPI is.")
        wanted = torch.zeros(self.num_graphs, dtype=torch.bool, device=ids.device)
        wanted[self.graph[ids]] = True
        inside = wanted[self.graph]
        nodes = inside.nonzero().squeeze(1)
        number = inside.cumsum(0) - 1
        graph_number = wanted.cumsum(0) - 1
        kept = inside[self.edge_index[0]]
        moved: dict[str, Any] = {f"{name}_idx": number[old[inside[old]]] for name in SPLITS for old in [self.idx(name)]}
        return replace(
            self,
            name=f"{self.name}, {split}",
            x=select_rows(self.x, nodes),
            edge_index=number[self.edge_index[:, kept]],
            edge_weight=None if self.edge_weight is None else self.edge_weight[kept],
            y=self.y[nodes],
            graph=graph_number[self.graph[nodes]],
            sha256=self._changed(f"part {split}"),
            **moved,
        )

    def with_random_split(self, seed: int, *, per_class: int = 20, val: int = 500, test: int = 1000) -> NodeDataset:
        """The same graph with another split, drawn by `seed`; the defaults have the sizes of the public split.

        See :func:`armagnn.data.splits.random_split` for how it is drawn: a seed gives the same split everywhere.
        Features that are standardised are standardised anew, on the new training nodes.
        """
        seed = check_seed(seed)
        if self.multilabel:
            raise ParameterError(f"{self.name} has many labels per node: a split by classes needs one label per node.")
        if self.regression:
            raise ParameterError(f"{self.name} has real targets: a split by classes needs classes.")
        train_idx, val_idx, test_idx = random_split(self.y, seed, per_class=per_class, val=val, test=test)
        return replace(
            self,
            name=f"{self.name}, random split {seed}",
            x=restandardised(self.x, train_idx) if self.features == "standardise" else self.x,
            train_idx=train_idx,
            val_idx=val_idx,
            test_idx=test_idx,
            sha256=self._changed(f"random split {seed} {per_class} {val} {test}"),
            split_parts=None,
        )

    def to(self, device: torch.device | str) -> NodeDataset:
        """The same dataset with every tensor on `device`."""
        return on_device(self, device)

    def derived(self, change: str) -> NodeDataset:
        """The same dataset with another checksum, for something that was done to it."""
        return replace(self, sha256=self._changed(instance("change", change, str, "a text")))

    def _changed(self, change: str) -> str:
        return hashlib.sha256(f"{self.sha256} {change}".encode()).hexdigest()

    def __repr__(self) -> str:
        graphs = "" if self.graph is None else f"graphs={self.num_graphs}, "
        return (
            f"NodeDataset({self.name!r}, {graphs}nodes={self.num_nodes}, edges={self.edge_index.shape[1]}, "
            f"features={self.num_features}, {'targets=1' if self.regression else f'classes={self.num_classes}'}, "
            f"split={len(self.train_idx)}/{len(self.val_idx)}/{len(self.test_idx)})"
        )


def select_rows(x: Tensor | CSR, nodes: Tensor) -> Tensor | CSR:
    """Return the rows `nodes` of X, in that order: (n, F).

    Example:
        >>> x = CSR.from_dense(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]]))
        >>> select_rows(x, torch.tensor([2, 0])).to_dense()
        tensor([[3., 4.],
                [1., 0.]])
    """
    if isinstance(x, Tensor):
        return x[nodes]
    entries, rowptr = slices(x.rowptr, nodes)
    return CSR(rowptr, x.col[entries], x.value[entries], (len(nodes), x.shape[1]))
