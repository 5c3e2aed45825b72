"""The configuration of trainings on the nodes of a graph: of the catalogue, of a file, or of tables.

Each field with a help is an option of ``armagnn train``. Nothing here imports torch before it is used; see `config`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from armagnn.errors import DataError, ParameterError
from armagnn.tasks import RATES
from armagnn.training.config import LONGEST, Config, data_name, named, register, text, title_of
from armagnn.training.hyperparameters import BEYOND, ELU, NODES
from armagnn.training.shared_options import MOST_STEPS, PAPERS, RUN, TABLES, TRAINING, option, shared

if TYPE_CHECKING:
    from armagnn.data import NodeDataset
    from armagnn.training.node_training import NodesExperiment

MOST_FOLDS: Final = 1000
"""The most folds."""

IN_MEMORY: Final = "in memory: "
"""What the name of a dataset begins with that was neither in a file nor in the catalogue."""

COLUMNS: Final = (
    "target", "id_column", "source_column", "dest_column", "weight_column", "ignore", "text", "categories", "split",
)  # fmt: skip
"""The options that name columns of tables."""

TABLES_ONLY: Final = (*COLUMNS, "directed", "unknown", "task", "text_by", "val", "test", "split_seed", "folds", "fold")
"""The options that only tables have."""


def listed(names: str) -> tuple[str, ...]:
    """The names of columns that are typed with commas between them; one that holds a comma stands in quotation marks.

    Example:
        >>> listed('a,"b, c"'), listed("")
        (('a', 'b, c'), ())
    """
    return tuple(name.strip() for row in csv.reader([names], skipinitialspace=True) for name in row if name.strip())


def table_defaults(conv: str) -> dict[str, Any]:
    """What a training on tables starts from: less dropout than on Cora, whose nodes are bags of words.

    Three seeds, 32 units and 300 epochs let 20,000 nodes and 280,000 edges be trained in less than a minute.

    Example:
        >>> chosen = table_defaults("arma")
        >>> chosen["hidden"], chosen["stacks"], chosen["layers"], chosen["seeds"]
        (32, 2, 1, 3)
    """
    stacks, layers = ({"cayley": (1, 5), "gcn": (1, 1)} | BEYOND | {"rational": (2, 1)}).get(conv, (2, 1))
    rates = dict(zip(RATES, (0.1, 0.5, 0.25), strict=True))
    sizes = {"hidden": 32, "stacks": stacks, "layers": layers, "seeds": 3, "epochs": 300, "patience": 50}
    return {**sizes, **rates, "l2": 1e-4, "lr": 0.01}


@register
@dataclass(frozen=True)
class NodesConfig(Config):
    """Hyperparameters of a training on nodes; the defaults are the paper's for ARMA on Cora, but for early stopping.

    The paper's text stops on validation accuracy with patience 50, the authors' own script on validation loss
    with patience 200. The default is the loss, a smooth measure where accuracy counts 500 nodes, with patience 100.
    The help of each field is that of its option (``armagnn train --help``).

    Data are a dataset of the catalogue, an ``.npz`` file, or tables of nodes and edges.

    Example:
        >>> NodesConfig(seed=5, seeds=3).all_seeds
        range(5, 8)
        >>> NodesConfig(conv="chebyshev", stacks=3, dataset="citeseer").title
        'chebyshev (K=3) on citeseer'
    """

    kind: ClassVar[str] = "nodes"
    command: ClassVar[str] = "train"
    EXPERIMENT: ClassVar[str] = "armagnn.training.node_training:NodesExperiment"
    HELP: ClassVar[str] = """Train the paper's network of two convolutions for node classification, once per seed.

    Real numbers in the y of your own file, rather than integers, are the target of a regression; NaN: there is none.
    For your own tables see `armagnn train nodes --help`, for whole graphs, and your own, `armagnn train graphs --help`.

    What is not given is the paper's value for the dataset and the layers (for your own files: that for Cora), with
    one exception: the paper's text stops on validation accuracy with patience 50 (--stop-on accuracy --patience 50);
    the authors' own script stops on validation loss, and so does the default here, with patience 100. On PPI it is
    300, as the paper's patience stops far too early there. ARMA has ELU on the citation networks.
    """
    SHORTCUTS: ClassVar[Mapping[str, tuple[str, ...]]] = {"dropout": ("input_dropout", "hidden_dropout")}
    RATES: ClassVar[tuple[str, ...]] = RATES
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {
        **Config.LIMITS,
        "last_stacks": (0, MOST_STEPS),
        "depth": (2, MOST_STEPS),
        "split_seed": (0, 2**63 - 1),
        "folds": (0, MOST_FOLDS),
        "fold": (0, MOST_FOLDS - 1),
    }
    STORED: ClassVar[Mapping[str, str]] = {
        "dataset": "dataset", "conv": "method", "stacks": "k", "layers": "t", "last_stacks": "last_k",
        **{name: name for name in ("hidden", "act", *RATES, "l2", "lr", "epochs", "patience", "stop_on")},
    }  # fmt: skip
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "features": ("auto", "rows", "standardise", "none", "kind"),
        "task": ("auto", "classes", "labels", "number"),
        "unknown": ("error", "drop"),
        "text_by": ("hashing", "tfidf"),
        "norm": ("none", "batch", "layer"),
        "jk": ("none", "last", "cat", "max"),
    }
    LATER: ClassVar[Mapping[str, Any]] = {
        "features": "kind", "init": "linear", "balance": False, "baselines": True,
        "depth": 2, "norm": "none", "jk": "none", "residual": False, "residual_scale": 1.0,
        "linear_skip": False, "radius": 0.99,
        **dict.fromkeys((*COLUMNS, "nodes", "edges"), ""),
        "directed": False, "unknown": "error", "task": "auto", "text_by": "hashing",
        "val": 0.2, "test": 0.2, "split_seed": 0, "folds": 0, "fold": 0,
    }  # fmt: skip
    OF_DATA: ClassVar[tuple[str, ...]] = ("dataset", "features")
    PATHS: ClassVar[tuple[str, ...]] = ("nodes", "edges")
    DESCRIPTION: ClassVar[str] = "tables.json"

    nodes: str = option("", "The table of nodes: CSV (also .gz) or Parquet, a row for each node.", TABLES, "none")
    edges: str = option("", "The table of edges, likewise: the ids of both ends, perhaps a weight.", TABLES, "none")
    target: str = option(
        "",
        "The column to learn: classes, lists of labels (a|b), or a number. Several columns of 0 and 1, with commas "
        "between them, are labels. Nodes without a value are those to predict.",
        TABLES,
        "label, target, class or y",
    )
    task: str = option("auto", "What the target is: classes, labels or number.", TABLES, "by its values")
    id_column: str = option("", "The column of ids in the table of nodes.", TABLES, "id, node, ...", "--id")
    source_column: str = option(
        "", "The column of the ends that edges come from.", TABLES, "source, src, from, ...", "--source"
    )
    dest_column: str = option("", "The column of the ends that edges go to.", TABLES, "target, dst, to, ...", "--dest")
    weight_column: str = option("", "The column of the weights of edges.", TABLES, "weight, w", "--weight")
    directed: bool = option(False, "Keep the direction of edges: a node hears only the sources of its edges.", TABLES)
    unknown: str = option(
        "error", "Edges to nodes that are not in the table of nodes: error, or drop.", TABLES, flag="--unknown"
    )
    ignore: str = option("", "Columns of nodes that are no features, with commas between them.", TABLES, "none")
    text: str = option("", "Columns of free text, whose words are features.", TABLES, "none")
    text_by: str = option("hashing", "How words become features: hashing or tfidf.", TABLES)
    categories: str = option("", "Columns of numbers that are categories, such as postcodes.", TABLES, "none")
    split: str = option("", "A column of nodes that says train, val or test.", TABLES, "drawn")
    val: float = option(0.2, "The share (below 1) or number of the nodes with a target for validation.", TABLES)
    test: float = option(0.2, "The same for the test.", TABLES)
    split_seed: int = option(0, "Seed of the split.", TABLES)
    folds: int = option(0, "Train once for each of so many folds, each of which is the test once.", TABLES, "none")
    fold: int = option(0, "Train for this fold alone, counted from 0.", TABLES, "all of them")
    balance: bool = option(False, "Let all classes count alike in the loss, however rare they are.", TRAINING)
    baselines: bool = option(
        True, "Of tables, also train a network that ignores the edges, and spread labels ignoring the features.", RUN
    )
    dataset: str = option("cora", "cora, citeseer, pubmed, ppi, or the path of your own .npz file.", RUN)
    features: str = option(
        "auto",
        "How features are scaled: rows (each row divided by its sum, for bags of words), standardise (each column, on "
        "the training nodes) or none. auto: your own are standardised, those of the catalogue have their own.",
        RUN,
    )
    conv: str = shared("conv", "arma")
    hidden: int = option(16, "Units of the hidden layer.", shown=PAPERS)
    stacks: int = shared("stacks", 2, PAPERS)
    layers: int = option(
        1,
        "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in each of the two places for the "
        "others (chebyshev has none).",
        shown=PAPERS,
    )
    last_stacks: int = option(0, "K of the second convolution.", shown="as the first")
    act: str = option("relu", "Activation of the hidden layer, e.g. relu or elu.", shown="relu; elu for arma on cora")
    depth: int = option(2, "Convolutions, one after another; each is a hidden layer but the last.")
    norm: str = option(
        "none",
        "Norm of the hidden layers, before the activation: none, batch (over all nodes) or layer (of each node).",
    )
    residual: bool = option(False, "Add the input of a hidden layer to its output, where both have the same size.")
    residual_scale: float = option(
        1.0, "What the output of a hidden layer is multiplied by before that; 1 / depth keeps deep networks trainable."
    )
    linear_skip: bool = option(
        False, "Add a linear map of the input of each layer to its convolution, before norm and activation."
    )
    jk: str = option(
        "none", "A linear map of the hidden layers puts out: none, of the last, of all (cat), of their maximum (max)."
    )
    init: str = option("linear", "Start of arma's recursion: linear (X W0), zero, or tied (W0 = V).")
    radius: float = option(
        0.99,
        "How near the poles of rational may come to the frequencies, below 1. Up to 0.8 the layer is a Chebyshev "
        "series of fixed length, which is fast on a GPU; beyond, it solves linear systems.",
    )
    input_dropout: float = option(0.75, "Drop rate of the input features.", shown=PAPERS)
    hidden_dropout: float = option(0.75, "Drop rate of the hidden units.", shown=PAPERS)
    skip_dropout: float = shared("skip_dropout", 0.75, PAPERS)
    l2: float = option(
        5e-4, "c of the penalty c ||W||² on all kernels, as in Keras (gradient 2 c W).", TRAINING, shown=PAPERS
    )
    lr: float = shared("lr", 0.01, PAPERS)
    epochs: int = shared("epochs", 2000)
    patience: int = shared("patience", 100, "100; 300 on ppi")
    stop_on: str = shared("stop_on", "loss")
    seed: int = shared("seed", 0)
    seeds: int = shared("seeds", 10)
    device: str = shared("device", "cpu")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.nodes) != bool(self.edges):
            missing = "edges" if self.nodes else "nodes"
            raise ParameterError(
                f"{missing} is missing: name a table of nodes and a table of edges (--{missing} FILE)."
            )
        if "stacks" in self._unused and self.depth > 2 and self.depth * self.layers > MOST_STEPS:
            raise ParameterError(f"depth is {self.depth} and layers {self.layers}: {MOST_STEPS} layers at most in all.")
        given = [name for name, usual in self.LATER.items() if name in TABLES_ONLY and getattr(self, name) != usual]
        if given and not self.tables:
            raise ParameterError(f"{given[0]} belongs to tables: name them with --nodes FILE --edges FILE.")
        if self.folds == 1 or (self.folds and self.fold >= self.folds) or (self.fold and not self.folds):
            raise ParameterError(f"folds is {self.folds} and fold {self.fold}; there are 2 folds or more, from 0.")

    @property
    def tables(self) -> bool:
        """Are the data tables, in files or in memory?"""
        return bool(self.nodes) or self.dataset.startswith(IN_MEMORY)

    @property
    def source(self) -> str:
        """The data: a name of the catalogue, or a path."""
        return self.nodes or self.dataset

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        stacks = f"{self.stacks}" + (f" then {self.last_stacks}" if self.last_stacks else "")
        return title_of(self.conv, stacks, self.layers, data_name(self.nodes) if self.nodes else self.dataset)

    @property
    def table_options(self) -> dict[str, Any]:
        """How tables are read: the options of `NodeDataset.from_tables`."""
        columns = {name: getattr(self, f"{name}_column") for name in ("id", "source", "dest", "weight")}
        lists = {name: listed(getattr(self, name)) for name in ("target", "ignore", "text", "categories")}
        plain = ("directed", "unknown", "task", "text_by", "features", "split", "val", "test", "folds", "fold")
        return columns | lists | {name: getattr(self, name) for name in plain} | {"seed": self.split_seed}

    @classmethod
    def begun(cls, typed: Mapping[str, Any]) -> NodesConfig:
        """The configuration of what was typed; the rest is the paper's for a dataset, or what suits tables."""
        typed = named(typed)
        if typed.get("nodes") or typed.get("edges"):
            return cls.for_tables(**typed)
        return super().begun(typed)

    @classmethod
    def for_tables(cls, conv: str = "arma", **changes: Any) -> NodesConfig:
        """The configuration that tables start from, with changes; see `table_defaults`.

        Example:
            >>> NodesConfig.for_tables("gcn", nodes="nodes.csv", edges="edges.csv", seeds=3).title
            'gcn (L=1) on nodes'
        """
        return cls(**{**table_defaults(text("conv", conv)), "conv": conv, **changes})

    @property
    def described(self) -> bool:
        """Does every run have the file that describes its data? Those on tables do."""
        return self.tables

    @property
    def fold_count(self) -> int:
        """Number of folds that the data are split into; 0 where there are none."""
        return self.folds

    def fold_configs(self) -> list[NodesConfig]:
        """The configuration of the training for each fold."""
        if not self.fold_count:
            raise ParameterError("folds is 0: say how many folds there are.")
        return [replace(self, fold=fold) for fold in range(self.fold_count)]

    def of_memory(self, data: NodeDataset) -> NodesConfig:
        """The configuration that a run keeps when these data, which were in memory, are trained on."""
        if getattr(data, "schema", None) is None or self.nodes:
            return self
        return replace(self, dataset=f"{IN_MEMORY}{data.name}"[:LONGEST])

    def stored(self) -> dict[str, Any]:
        """The configuration as the results store keeps it, which names K of the last layer in any case."""
        return super().stored() | {"last_k": self.last_stacks or self.stacks}

    @classmethod
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper for one of its datasets and the layers `conv`; for other data, those of Cora.

        Two of them are ours: training stops on validation loss, with patience 100, on PPI 300; and on the citation
        networks ARMA has ELU, which cross-validation on their labelled nodes chose for all three
        (`armagnn_paper.grid`).

        Example:
            >>> chosen = NodesConfig.defaults("ppi", "arma")
            >>> chosen["hidden"], chosen["stacks"], chosen["layers"], chosen["patience"]
            (64, 3, 2, 300)
        """
        row = NODES.get(text("source", source), NODES["cora"])
        stacks, layers = row.orders.get(text("conv", conv), row.orders["gcn"])
        sizes = {"hidden": row.hidden, "stacks": stacks, "layers": layers, "patience": 300 if source == "ppi" else 100}
        chosen = {"act": "elu"} if conv == "arma" and source in ELU else {}
        return {**sizes, **dict.fromkeys(RATES, row.dropout), **chosen, "l2": row.l2, "lr": row.lr}

    if TYPE_CHECKING:

        def experiment(self, data: Any = None) -> NodesExperiment:
            """The configuration with its dataset."""

    def load(self) -> NodeDataset:
        """The dataset, with its features scaled as the configuration says."""
        from armagnn.data import NodeDataset, load

        if self.nodes:
            return NodeDataset.from_tables(self.nodes, self.edges, **self.table_options)
        if self.dataset.startswith(IN_MEMORY):
            name = self.dataset.removeprefix(IN_MEMORY)
            raise DataError(f"the run was trained on data in memory ({name}): pass them again, as `data`.")
        return load(self.dataset, features=self.features)  # type: ignore[arg-type]  # it is checked
