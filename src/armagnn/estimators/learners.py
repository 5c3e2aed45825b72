"""`ARMAClassifier` and `ARMARegressor`: a network of two convolutions on the nodes of a graph, for scikit-learn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from armagnn import checks
from armagnn.data import NodeDataset
from armagnn.errors import ArmagnnError, DataError, DTypeError, ShapeError
from armagnn.estimators.node_rows import AskedRows, Matrix, NodeRows, nodes_of, validated
from armagnn.estimators.reservoir import seed_of
from armagnn.operators import CSR, GraphOperator
from armagnn.tasks import NodeNet, NodeTask
from armagnn.training.node_config import NodesConfig
from armagnn.training.node_training import NodesExperiment

LARGEST: Final = float(np.finfo(np.float32).max)
MANY, FRACTION = 1000, 0.1
"""From how many known rows on which share of them is for validation, where nobody says."""

Array = NDArray[Any]


class RowsExperiment(NodesExperiment):
    """The experiment of `armagnn train`, on the nodes of an estimator, whose graph may have come as an operator."""

    def __init__(self, config: NodesConfig, dataset: NodeDataset, graph: Any) -> None:
        super().__init__(config, dataset)
        self.graph = graph

    def task(self, net: NodeNet, fold: int | None, device: torch.device) -> NodeTask:
        """Loss and metrics on the splits of the dataset."""
        task = super().task(net, fold, device)
        op = self.operator(net)
        op = None if op is None else op.to(device)
        task.parts = {name: replace(part, op=op) for name, part in task.parts.items()}
        return task

    def operator(self, net: NodeNet) -> GraphOperator | None:
        """The operator that the layers of a network want."""
        op = net.conv1.operator(self.graph, self.dataset.num_nodes)
        return None if op is None else op.to(torch.float32)


class NodeLearner(BaseEstimator):
    """The network conv2(relu(conv1(X))) of two graph convolutions on rows of a table.

    With ``graph="knn"`` the rows of ``fit`` are joined with their nearest ones. Rows that ``predict`` sees for the
    first time are attached to their nearest rows of ``fit``; nothing is trained again.

    With a graph, ``fit`` takes all its nodes, in their order; or some, if ``nodes=`` or the integer index of a pandas
    ``DataFrame`` says which (for a networkx graph: their names). Then it sees these nodes and the edges among them, as
    in cross-validation; ``predict`` sees these and its own.

    Args:
        graph: ``"knn"``, or any graph that a `GraphOperator` can be built from: an edge index of shape (2, E), a sparse
            or dense matrix, a PyG ``Data``, a networkx graph, a `GraphOperator`.
        n_neighbors: of ``"knn"``: how many nearest rows each row asks for, by the distance of (standardised) features.
        conv: the layers, a name that `make_conv` knows.
        hidden: units of the hidden layer.
        num_stacks: K of ARMA (or the order of chebyshev and cayley).
        num_layers: T of ARMA; of gcn, gat, sage, gin and mlp the layers in each of the two places.
        act: activation of the hidden layer.
        dropout: drop rate of the features, the hidden units and ARMA's skip connections.
        l2: weight of the penalty on the kernels.
        lr: learning rate of Adam.
        epochs: most epochs.
        patience: epochs without a lower loss on the rows that decide when to stop, after which training stops.
        validation_fraction: the share of the known rows that decides when to stop, and is not trained on. At 0 the
            training rows decide. ``"auto"`` is 0 for fewer than 1000 known rows, which are worth more for training, and
            0.1 for more.
        seeds: number of networks, trained as one batch from different weights; predictions are their means.
        standardise: subtract the mean of each column and divide by its deviation (sparse ones are only divided).
        device: where to train: "cpu", "cuda" or "cuda:1".
        random_state: seed of weights, dropout and validation rows, as everywhere in scikit-learn.
    """

    def __init__(
        self,
        graph: Any = "knn",
        n_neighbors: int = 10,
        conv: str = "arma",
        hidden: int = 32,
        num_stacks: int = 2,
        num_layers: int = 1,
        act: str = "relu",
        dropout: float = 0.25,
        l2: float = 5e-4,
        lr: float = 0.01,
        epochs: int = 300,
        patience: int = 50,
        validation_fraction: float | Literal["auto"] = "auto",
        seeds: int = 1,
        standardise: bool = True,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.graph, self.n_neighbors = graph, n_neighbors
        self.conv, self.hidden, self.num_stacks, self.num_layers, self.act = conv, hidden, num_stacks, num_layers, act
        self.dropout, self.l2, self.lr, self.epochs, self.patience = dropout, l2, lr, epochs, patience
        self.validation_fraction, self.seeds = validation_fraction, seeds
        self.standardise, self.device, self.random_state = standardise, device, random_state

    # ------------------------------------------------------------------------------------------------------------- fit

    def _train(self, X: Any, y: Tensor, known: Array, nodes: Any, num_classes: int) -> None:
        """Train on the rows `known` of features that are validated; `y` has a target of every row."""
        config = self._config()
        generator = np.random.default_rng(config.seed)
        train, val = self._split(y.numpy(), known, num_classes, generator)
        self.scaler_ = None
        if checks.flag("standardise", self.standardise):
            self.scaler_ = StandardScaler(with_mean=not sp.issparse(X)).fit(X)
        self.rows_ = NodeRows.fit(self.graph, self.n_neighbors, self._scaled(X), nodes)
        part = self.rows_.all()
        places = torch.from_numpy(part.wanted)
        whole = torch.full((part.X.shape[0],), -1 if num_classes else torch.nan, dtype=y.dtype)
        whole[places] = y
        dataset = _dataset(part, whole, places[torch.from_numpy(train)], places[torch.from_numpy(val)], num_classes)
        experiment = RowsExperiment(config, dataset, part.graph)
        experiment.check_memory()
        outcomes = [
            outcome.require_converged()
            for outcome in experiment.trials(
                [config.setting(seed) for seed in config.all_seeds], device=config.torch_device()
            ).run()
        ]
        outcomes.sort(key=lambda outcome: outcome.seed)
        self._config_, self._outputs_ = config, dataset.num_outputs
        self.states_ = [outcome.state for outcome in outcomes]
        self.histories_ = [outcome.history for outcome in outcomes]
        self.n_iter_ = max(outcome.epochs for outcome in outcomes)
        self.validation_loss_ = float(np.mean([outcome.val["loss"] for outcome in outcomes]))

    def _config(self) -> NodesConfig:
        """The options as the configuration that `armagnn train` would have; it checks them."""
        config = NodesConfig(
            dataset="X", conv=self.conv, hidden=self.hidden, stacks=self.num_stacks, layers=self.num_layers,
            act=self.act, l2=self.l2, lr=self.lr, epochs=self.epochs, patience=self.patience, seeds=self.seeds,
            device=self.device, seed=seed_of(self.random_state),
            input_dropout=self.dropout, hidden_dropout=self.dropout, skip_dropout=self.dropout,
        )  # fmt: skip
        if self.validation_fraction != "auto":
            checks.probability("validation_fraction", self.validation_fraction)
        return config

    def _split(self, y: Array, known: Array, num_classes: int, generator: Any) -> tuple[Array, Array]:
        """Return the rows for training and those for early stopping, of each class its share."""
        auto = FRACTION if len(known) >= MANY else 0.0
        fraction = auto if self.validation_fraction == "auto" else float(self.validation_fraction)
        groups = [known[y[known] == label] for label in range(num_classes)] if num_classes else [known]
        val: list[Array] = []
        for group in groups:
            group = generator.permutation(group)
            val.append(group[: min(round(fraction * len(group)), len(group) - 1)])
        chosen = np.sort(np.concatenate(val))
        if not len(chosen):
            return known, known
        return np.setdiff1d(known, chosen), chosen

    def _scaled(self, X: Matrix) -> Matrix:
        return X if self.scaler_ is None else self.scaler_.transform(X)

    # --------------------------------------------------------------------------------------------------------- predict

    def _asked(self, X: Any, nodes: Any) -> AskedRows:
        """Return the rows of a call with the nodes that they need."""
        check_is_fitted(self)
        nodes = nodes_of(X, nodes)
        return self.rows_.ask(self._scaled(validated(self, X, reset=False)), nodes)

    def _outputs(self, part: AskedRows) -> Iterator[Tensor]:
        """Yield what each network puts out for the rows that are asked for, (m, C)."""
        count, none = part.X.shape[0], torch.empty(0, dtype=torch.int64)
        y = torch.empty(count) if self._outputs_ == 1 else torch.zeros(count, dtype=torch.int64)
        dataset = _dataset(part, y, none, none, 0 if self._outputs_ == 1 else self._outputs_)
        experiment = RowsExperiment(replace(self._config_, device="cpu"), dataset, part.graph)
        net = experiment.network().eval()
        op = experiment.operator(net)
        wanted = torch.from_numpy(part.wanted)
        with torch.no_grad():
            for state in self.states_:
                net.load_state_dict(state)
                yield net(dataset.x, op)[wanted].double()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ARMAClassifier(ClassifierMixin, NodeLearner):
    """Classes of nodes: softmax(conv2(relu(conv1(X)))), with two graph convolutions, ARMA's by default.

    Rows whose class is -1 (or None, or NaN) are unknown: they take part with their features and edges, and ``predict``
    says what they are. Where -1 and one other class are all there is, -1 is a class.

    Attributes:
        classes_: the classes.
        transduction_: the class of every row of ``fit``, the unknown ones too.
        label_distributions_: their probabilities, (n, C).
        n_iter_: epochs of the longest training.
        validation_loss_: the loss on the rows that decide when to stop, the mean over networks.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> some = np.where(np.arange(150) % 5, -1, y)  # 30 flowers are known
        >>> model = ARMAClassifier(random_state=0).fit(X, some)
        >>> model.score(X, y) > 0.85, model.predict([[5.0, 3.4, 1.5, 0.2]])
        (True, array([0]))
    """

    def fit(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Train on features X (n, F) and the classes y (n) of some rows; ``nodes`` says which nodes the rows are."""
        nodes = nodes_of(X, nodes)
        X = validated(self, X, reset=True)
        labels, known = _classes(_column(y, X.shape[0]))
        self.classes_, codes = np.unique(labels[known], return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(f"y has one class, {self.classes_.tolist()[0]!r}: there is nothing to tell apart.")
        numbers = np.zeros(len(labels), dtype=np.int64)
        numbers[known] = codes
        self._train(X, torch.from_numpy(numbers), np.flatnonzero(known), nodes, len(self.classes_))
        self.label_distributions_ = self._probabilities(self.rows_.all())
        self.transduction_ = self.classes_[self.label_distributions_.argmax(1)]
        return self

    def predict_proba(self, X: Any, nodes: Any = None) -> Array:
        """Return the probability of each class, (m, C)."""
        return self._probabilities(self._asked(X, nodes))

    def predict(self, X: Any, nodes: Any = None) -> Array:
        """Return the most probable class of each row."""
        found: Array = self.predict_proba(X, nodes).argmax(1)
        return self.classes_[found]

    def score(self, X: Any, y: Any, sample_weight: Any = None, nodes: Any = None) -> float:
        """Return the accuracy."""
        return _score(accuracy_score, y, self.predict(X, nodes), sample_weight)

    def _probabilities(self, part: AskedRows) -> Array:
        found: Array = torch.stack([torch.softmax(out, -1) for out in self._outputs(part)]).mean(0).numpy()
        return found


class ARMARegressor(RegressorMixin, NodeLearner):
    """A number for each node: conv2(relu(conv1(X))), with two graph convolutions, ARMA's by default.

    Rows whose target is NaN are unknown: they take part with their features and edges, and ``predict`` says what they
    are.

    Attributes:
        transduction_: the number of every row of ``fit``, the unknown ones too.
        n_iter_: epochs of the longest training.
        validation_loss_: the loss (of standardised targets) on the rows that decide when to stop, the mean.

    Example:
        >>> X = np.linspace(0, 6, 100)[:, None]
        >>> model = ARMARegressor(n_neighbors=3, random_state=0).fit(X, 50 + 10 * np.sin(X[:, 0]))
        >>> model.predict([[1.5], [4.5]]).round(-1)
        array([60., 40.])
    """

    def fit(self, X: Any, y: Any, nodes: Any = None) -> Self:
        """Train on features X (n, F) and the numbers y (n) of some rows; ``nodes`` says which nodes the rows are."""
        nodes = nodes_of(X, nodes)
        X = validated(self, X, reset=True)
        try:
            values = _column(y, X.shape[0]).astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DataError(f"y must be real numbers, NaN where none is known: {error}.") from error
        known = ~np.isnan(values)
        if np.isinf(values).any():
            raise DataError("Input y contains infinity or a value too large for dtype('float64').")
        if not known.any():
            raise DataError("y is NaN everywhere: at least one number must be known.")
        self.mean_ = float(values[known].mean())
        self.deviation_ = float(values[known].std()) or 1.0
        scaled = torch.from_numpy((values - self.mean_) / self.deviation_).float()
        self._train(X, scaled, np.flatnonzero(known), nodes, 0)
        self.transduction_ = self._values(self.rows_.all())
        return self

    def predict(self, X: Any, nodes: Any = None) -> Array:
        """Return the number of each row."""
        return self._values(self._asked(X, nodes))

    def score(self, X: Any, y: Any, sample_weight: Any = None, nodes: Any = None) -> float:
        """Return R2, the share of the variance that is explained."""
        return _score(r2_score, y, self.predict(X, nodes), sample_weight)

    def _values(self, part: AskedRows) -> Array:
        found: Array = torch.stack([out[:, 0] for out in self._outputs(part)]).mean(0).numpy()
        return self.mean_ + self.deviation_ * found


# --------------------------------------------------------------------------------------------------------------- input


def _score(measure: Callable[..., Any], y: Any, found: Array, sample_weight: Any) -> float:
    """Return a measure of scikit-learn, which checks y and the weights of rows."""
    try:
        return float(measure(y, found, sample_weight=sample_weight))
    except RuntimeError as error:  # a tensor that has no values, or needs a gradient
        raise DTypeError(f"y and sample_weight must be arrays: {error}") from error


def _dataset(part: AskedRows, y: Tensor, train: Tensor, val: Tensor, num_classes: int) -> NodeDataset:
    """Return the nodes of a call as a dataset. Its experiment knows the edges."""
    edges = torch.empty(2, 0, dtype=torch.int64)
    return NodeDataset("X", _features(part.X), edges, y, train, val, val, num_classes, sha256="")


def _features(X: Matrix) -> Tensor | CSR:
    """Return features as the network takes them, in single precision."""
    largest = np.abs(X.data if sp.issparse(X) else X).max(initial=0.0)
    if not largest <= LARGEST:
        raise DataError("X holds values too large for single precision: divide its columns by their size.")
    if sp.issparse(X):
        return CSR.from_scipy(X, dtype=torch.float32)
    return torch.from_numpy(np.array(X, dtype=np.float32))


def _column(y: Any, rows: int) -> Array:
    """Return y as an array of one target for each row."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None: give -1 or NaN for rows that are unknown.")
    try:
        y = y.detach().cpu().numpy() if isinstance(y, Tensor) else y
        found: Array = column_or_1d(y, warn=True)
    except ArmagnnError:
        raise
    except (TypeError, RuntimeError) as error:
        raise DTypeError(f"y: {error}") from error
    except ValueError as error:
        raise ShapeError(f"y: {error}") from error
    if len(found) != rows:
        raise ShapeError(f"y has {len(found)} targets for the {rows} rows of X: each row needs one.")
    return found


def _classes(y: Array) -> tuple[Array, Array]:
    """Return the labels, and which of them are known."""
    if y.dtype.kind == "f":
        if np.isinf(y).any():
            raise DataError("Input y contains infinity or a value too large for dtype('float64').")
        known = ~np.isnan(y) & (y != -1)
    elif y.dtype.kind in "iub":
        known = y != -1
    elif y.dtype.kind == "O":
        known = np.array([not (v is None or (isinstance(v, float) and np.isnan(v)) or _is_minus_one(v)) for v in y])
    else:
        known = np.ones(len(y), dtype=bool)
    if not known.any():
        raise DataError("y has no known class: all of it is -1, None or NaN.")
    try:
        check_classification_targets(y[known])
        if len(np.unique(y[known])) == 1 and not known.all():
            known = known | np.array([_is_minus_one(v) for v in y])
        np.unique(y[known])
    except (TypeError, ValueError) as error:
        raise DataError(f"y: {error}") from error
    return y, known


def _is_minus_one(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and bool(value == -1)


for _learner in (ARMAClassifier, ARMARegressor):  # one text of the arguments, shown where they are looked for
    _own, _examples = (_learner.__doc__ or "").split("\n    Attributes:")
    _shared = (NodeLearner.__doc__ or "").split("\n", 1)[1]
    _learner.__doc__ = f"{_own}{_shared.rstrip()}\n\n    Attributes:{_examples}"
