"""The configurations of trainings on whole graphs, and on signals on a graph.

Each field with a help is an option of ``armagnn train``. Nothing here imports torch before it is used; see `config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from armagnn.errors import ParameterError, UnknownNameError, shown
from armagnn.tasks import GRAPH_RATES, SIGNAL_RATES
from armagnn.training.config import Config, data_name, register, text, title_of
from armagnn.training.hyperparameters import GRAPHS, SIGNALS, graph_order, group
from armagnn.training.shared_options import DATA, MOST_STEPS, MOST_UNITS, PAPERS, RUN, TRAINING, option, shared

FOLDS: Final = 10
"""Folds of a set of graphs; here, too, as the help shall not wait for the data (a test compares them)."""

if TYPE_CHECKING:
    from armagnn.data import GraphsDataset, SignalsDataset
    from armagnn.training.outcome import Setting


@register
@dataclass(frozen=True)
class GraphsConfig(Config):
    """Hyperparameters of a training on whole graphs; the defaults are the paper's for Enzymes, but without dropout.

    The network is GNN - ... - GNN - average pooling - fully connected. Of the graphs, fold `fold` of ten has a tenth
    for the test, about a tenth for early stopping, and the rest for training. Stopping is on validation loss, for
    classes too: the accuracy on a tenth of one's own graphs is a count of few. The help of each field is that of its
    option (``armagnn train graphs --help``).

    Example:
        >>> GraphsConfig(data="my/graphs", conv="gcn").title
        'gcn (L=2) on graphs'
    """

    kind: ClassVar[str] = "graphs"
    command: ClassVar[str] = "train graphs"
    EXPERIMENT: ClassVar[str] = "armagnn.training.graph_training:GraphsExperiment"
    OF_DATA: ClassVar[tuple[str, ...]] = ("data", "target")
    DESCRIPTION: ClassVar[str] = "graphs.json"
    HELP: ClassVar[str] = """Train a network on whole graphs, your own or the catalogue's, once per seed.

    Your own graphs are a folder of three tables: graphs.csv (graph, label), nodes.csv (graph, id, features) and
    edges.csv (source, target; and graph, where ids count within a graph). Or they are in TU's format.

    Classification or regression: classes or numbers in the table; in TU's format, integers in DS_graph_labels.txt are
    classes; reals in DS_graph_attributes.txt are targets, several by commas, which one network learns together. The
    network is convolutions, average pooling, fully connected. Nodes are described by degree, clustering coefficient
    and, where there are such, columns of the table, or labels and attributes. `armagnn predict RUN --data FOLDER`
    needs no more than the run folder.

    What is not given is the paper's value for its own datasets, and for other graphs that for Enzymes, but without
    dropout. Stopping is on validation loss, as the accuracy on a tenth of the graphs is a count of few.
    """
    NEEDS_DATA: ClassVar[bool] = True
    RATES: ClassVar[tuple[str, ...]] = GRAPH_RATES
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {
        **Config.LIMITS,
        "depth": (1, MOST_STEPS),
        "head": (0, MOST_UNITS),
        "slots": (0, 2**31 - 1),
        "batch": (1, MOST_UNITS),
        "fold": (0, FOLDS - 1),
        "folds": (0, FOLDS),
        "split_seed": (0, 2**63 - 1),
    }
    STORED: ClassVar[Mapping[str, str]] = {
        "data": "dataset", "conv": "method", "stacks": "k", "layers": "t",
        **{name: name for name in ("hidden", "depth", "head", "act", "slots", *GRAPH_RATES)},
        **{name: name for name in ("l2", "lr", "batch", "epochs", "patience", "stop_on")},
    }  # fmt: skip
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "pooling": ("mean", "padded"), "edges": ("plain", "bond orders"),
    }  # fmt: skip
    LATER: ClassVar[Mapping[str, Any]] = {
        "edges": "plain", "one_target": "", "slots": 0, "folds": 0, "own_split": False,
    }  # fmt: skip

    data: str = option(
        "mutag",
        "A folder of tables (graphs.csv, nodes.csv and edges.csv, or .parquet), a folder in TU's format (DS_A.txt, "
        "DS_graph_indicator.txt, DS_graph_labels.txt or DS_graph_attributes.txt, ...), an .npz file of graphs, or a "
        "name such as mutag.",
        DATA,
        "needed, but with --resume",
    )
    target: str = option(
        "auto",
        "Of tables, the column of graphs.csv to learn. For a folder in TU's format that has both: labels (classes) or "
        "attributes (real targets).",
        DATA,
        "label, target, class or y",
    )
    one_target: str = option("", "Learn this one of several real targets.", DATA, "all of them")
    edges: str = option("plain", "Of qm9: plain, or bond orders as weights.", DATA)
    fold: int = option(
        0, "Which of ten folds, 0 to 9: a tenth of the graphs for test, about a tenth for stopping.", DATA
    )
    folds: int = option(0, "Train for all ten folds, each in a folder below --out: 10.", DATA, "one")
    split_seed: int = option(0, "Seed of the folds.", DATA)
    own_split: bool = option(False, "Take the split that the data come with (both Bench-hard sets), not a fold.", DATA)
    conv: str = shared("conv", "arma")
    hidden: int = option(32, "Units of each convolution.", shown="32; 64 on qm9")
    depth: int = option(3, "Convolutions.", shown="3; 1 on qm9")
    head: int = shared("head", 0, "0; 128 on qm9")
    stacks: int = shared("stacks", 2, PAPERS)
    layers: int = shared("layers", 2, PAPERS)
    act: str = option("relu", "Activation, e.g. relu or elu.")
    pooling: str = option(
        "mean",
        "mean, over the nodes of a graph; or padded: their sum, divided by the nodes of the largest training "
        "graph, so that the size of a graph shows.",
        shown="mean; padded on qm9",
    )
    slots: int = option(0, "Where padded: divide by this number.", shown="the nodes of the largest training graph")
    hidden_dropout: float = option(0.0, "Drop rate between the layers.")
    skip_dropout: float = shared("skip_dropout", 0.0, "the paper's, or 0")
    l2: float = shared("l2", 1e-4, "1e-4; 0 on qm9")
    lr: float = shared("lr", 1e-3)
    batch: int = option(32, "Graphs of a batch.", TRAINING, "32; 64 on qm9")
    epochs: int = shared("epochs", 1000)
    patience: int = shared("patience", 50)
    stop_on: str = option(
        "loss",
        "What must improve on validation: loss, or accuracy (of classes; the lower loss decides a tie).",
        TRAINING,
    )
    seed: int = shared("seed", 0)
    seeds: int = shared("seeds", 10)
    device: str = shared("device", "cpu")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target == "none":  # predictions of new graphs read their data so: there is nothing to learn
            raise UnknownNameError("target", self.target, ("auto", "labels", "attributes", "a column of graphs.csv"))
        if self.folds not in (0, FOLDS):
            raise ParameterError(f"folds is {self.folds}; sets of graphs have {FOLDS} folds.")
        if "stacks" in self._unused and self.depth * self.layers > MOST_STEPS:
            raise ParameterError(
                f"depth is {self.depth} and layers {self.layers}: a network of {self.depth * self.layers} layers, of "
                f"{MOST_STEPS} at most."
            )

    @property
    def title(self) -> str:
        """What is trained, in one line."""
        return title_of(self.conv, str(self.stacks), self.layers, data_name(self.data))

    @property
    def fold_count(self) -> int:
        """Ten, always."""
        return FOLDS

    def fold_configs(self) -> list[GraphsConfig]:
        """The configuration of the training for each fold, as `fold` alone makes it."""
        return [replace(self, fold=fold, folds=0) for fold in range(FOLDS)]

    @classmethod
    def is_path(cls, source: str) -> bool:
        """Is it a folder or a file?"""
        from armagnn.training.graph_training import is_folder

        return is_folder(text("source", source)) or source.endswith(".npz")

    @classmethod
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper for one of its datasets and the layers `conv`; for other data, Enzymes', no dropout.

        Example:
            >>> GraphsConfig.defaults("my/graphs", "arma")
            {'stacks': 2, 'layers': 2, 'skip_dropout': 0.0}
            >>> GraphsConfig.defaults("enzymes", "arma")["skip_dropout"], GraphsConfig.defaults("qm9", "gcn")["head"]
            (0.6, 128)
        """
        known = group(text("source", source)) in GRAPHS and "/" not in source
        stacks, layers = graph_order(source if known else "enzymes", text("conv", conv))
        skip = GRAPHS[group(source)][0] if known and conv == "arma" else 0.0
        molecules = {"hidden": 64, "depth": 1, "head": 128, "pooling": "padded", "l2": 0.0, "batch": 64}
        return {"stacks": stacks, "layers": layers, "skip_dropout": skip} | (molecules if source == "qm9" else {})

    def load(self) -> GraphsDataset:
        """The graphs."""
        from armagnn.training.graph_training import read_graphs

        return read_graphs(self.data, self.target)

    # ----------------------------------------------------------------------------------------------------------- store

    def stored(self) -> dict[str, Any]:
        """The configuration as the results store keeps it; a single target is part of the dataset's name."""
        content = super().stored()
        target = content.pop("one_target", "")
        return content | {"dataset": f"{self.data}/{target}"} if target else content

    @classmethod
    def from_stored(cls, content: Mapping[str, Any]) -> GraphsConfig:
        """The inverse of `stored`."""
        found = super().from_stored(content)
        data, _, target = found.data.partition("/")
        return replace(found, data=data, one_target=target, pooling="padded" if found.slots else "mean")

    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch, which may hold trials of several single targets."""
        return Config.shape(replace(self, one_target=""))


@register
@dataclass(frozen=True)
class SignalsConfig(Config):
    """Hyperparameters of a training on signals of one graph; the defaults are the paper's for ARMA on 20news.

    The network is GNN - pooling - ... - fully connected. Stopping is on validation accuracy: the weights of the best
    epoch (of equal ones, the lower loss) are kept. The help of each field is that of its option (``armagnn train
    signals --help``).

    Example:
        >>> SignalsConfig(dataset="mnist", widths="32-64").filters
        (32, 64)
    """

    kind: ClassVar[str] = "signals"
    command: ClassVar[str] = "train signals"
    EXPERIMENT: ClassVar[str] = "armagnn.training.signal_training:SignalsExperiment"
    HELP: ClassVar[
        str
    ] = """Train a network on signals of one graph, MNIST's images or the documents of 20news, once per seed.

    Each convolution may be followed by Graclus pooling; then all nodes go into fully connected layers. What is not
    given is the paper's value for the dataset and the layers, in the setting of Defferrard et al. that it follows.
    """
    RATES: ClassVar[tuple[str, ...]] = SIGNAL_RATES
    LIMITS: ClassVar[Mapping[str, tuple[int, int]]] = {
        **Config.LIMITS,
        "stride": (1, 2**20),
        "head": (0, MOST_UNITS),
        "batch": (1, MOST_UNITS),
    }
    STORED: ClassVar[Mapping[str, str]] = {
        "dataset": "dataset", "conv": "method", "stacks": "k", "layers": "t",
        **{name: name for name in ("features", "widths", "stride", "head", "average", *SIGNAL_RATES)},
        **{name: name for name in ("l2", "lr", "batch", "epochs")},
    }  # fmt: skip
    CHOICES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "features": ("raw", "tfidf", "table"), "l2_on": ("all", "convolutions"),
    }  # fmt: skip
    LATER: ClassVar[Mapping[str, Any]] = {"l2_on": "all", "all_signals": False, "stop_on": "accuracy"}

    dataset: str = option(
        "20news", "mnist, mnist-self, 20news or 20news-plain (prepare these once: armagnn data make 20news).", RUN
    )
    conv: str = shared("conv", "arma")
    features: str = option("tfidf", "What a node has in a signal: raw, tfidf, table.", shown="by dataset")
    stacks: int = shared("stacks", 1, PAPERS)
    layers: int = shared("layers", 1, PAPERS)
    widths: str = option("16", "Filters of each convolution, e.g. 32-64.", shown=PAPERS)
    stride: int = option(1, "Of the pooling after each convolution; 1: none.", shown=PAPERS)
    head: int = shared("head", 0, PAPERS)
    average: bool = option(False, "Average over the nodes before the fully connected layers.")
    hidden_dropout: float = option(0.7, "Drop rate before the last layer.", shown=PAPERS)
    skip_dropout: float = shared("skip_dropout", 0.0)
    l2: float = shared("l2", 1e-3, PAPERS)
    l2_on: str = option("all", "The kernels that L2 acts on: all, or those of convolutions.", TRAINING)
    all_signals: bool = option(
        False,
        "Train on the signals for validation, too; then --stop-on last keeps the weights of the last epoch.",
        TRAINING,
    )
    lr: float = shared("lr", 1e-3)
    batch: int = option(128, "Signals of a batch.", TRAINING, PAPERS)
    epochs: int = shared("epochs", 20)
    patience: int = shared("patience", 20)
    stop_on: str = shared("stop_on", "accuracy")
    seed: int = shared("seed", 0)
    seeds: int = option(1, "Number of trials, one per seed.", RUN)
    device: str = shared("device", "cpu")

    def __post_init__(self) -> None:
        from armagnn.checks import integer

        super().__post_init__()
        widths = self.widths.split("-")
        if not all(width.isascii() and width.isdigit() and len(width) < 6 for width in widths) or len(widths) > 100:
            raise ParameterError(f"widths is {shown(self.widths)}; write the filters of each convolution as 32-64.")
        if self.all_signals and self.stop_on != "last":
            raise ParameterError("all_signals leaves no signals to choose an epoch by: it goes with stop_on 'last'.")
        for width in self.filters:
            integer("each of widths", width, 1, MOST_UNITS)

    @property
    def filters(self) -> tuple[int, ...]:
        """Filters of each convolution."""
        return tuple(map(int, self.widths.split("-")))

    @property
    def strides(self) -> tuple[int, ...]:
        """Stride of the pooling after each convolution."""
        return (self.stride,) * len(self.filters)

    @property
    def batched(self) -> bool:
        """Whether several trials are worth a batch. Elsewhere the signals of one fill a device as they are.

        On MNIST, a step of all but ARMA is a chain of small launches. On 20news, where a word has one number, the
        polynomials of the graph that Chebyshev and CayleyNet apply to it are the same for all trials.
        """
        if self.dataset.startswith("mnist"):
            return self.conv != "arma"
        return self.features == "tfidf" and self.conv in ("chebyshev", "cayley")

    def setting(self, seed: int) -> Setting:
        """What may differ between trials; of one alone, the drop rates are the network's own."""
        from armagnn.training.outcome import Setting

        return super().setting(seed) if self.batched else Setting(seed, self.lr, self.l2)

    def shape(self) -> tuple[Any, ...]:
        """What must be the same in a batch."""
        return super().shape() if self.batched else tuple(self.stored().values())

    @classmethod
    def defaults(cls, source: str, conv: str) -> dict[str, Any]:
        """The options of the paper, as the setting of Defferrard et al. has them, for a dataset (or else for 20news).

        Example:
            >>> [SignalsConfig.defaults(*each)["widths"] for each in (("mnist", "arma"), ("20news", "chebyshev"))]
            ['32-64', '32']
        """
        images = text("source", source).startswith("mnist")
        row = SIGNALS["mnist" if images else "20news"]
        stacks, layers = row.orders.get(text("conv", conv), row.orders["gcn"])
        width = "32-64" if images else str(32 if conv == "chebyshev" else row.hidden)  # Chebyshev's filters there
        sizes = {"stacks": stacks, "layers": layers, "widths": width, "features": "raw" if images else "tfidf"}
        sizes |= {"stride": 4, "head": 512, "batch": 32} if images else {}
        return {**sizes, "hidden_dropout": row.dropout, "l2": row.l2, "lr": row.lr}

    def load(self) -> SignalsDataset:
        """The signals."""
        from armagnn.data import load_signals

        return load_signals(self.dataset)
