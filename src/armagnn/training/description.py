"""What a run on graphs keeps of its data (``graphs.json``): all that is needed to describe and judge new graphs."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor

from armagnn.arguments import checked
from armagnn.checks import LARGEST
from armagnn.data import Fold, GraphsDataset, NodeFeatures, Scaler, node_features
from armagnn.data.graphs import FEATURE_KINDS
from armagnn.data.tables.encoding import TableEncoder
from armagnn.errors import DataError, RunError
from armagnn.tasks.graph_task import fit_scalers
from armagnn.training.checkpoint import AGAIN
from armagnn.training.run_folder import Run

SHOWN: Final = 10
"""The most labels that an error lists."""


@checked
@dataclass(frozen=True)
class Description:
    """How the graphs of a run are described, and what its outputs mean.

    Attributes:
        kinds: what nodes are described by, of "degree", "clustering", "labels" and "attributes".
        vocabulary: the node labels behind the one-hot columns, ascending.
        attributes: number of node attributes.
        mean: of each column of features, over the nodes of training graphs; 0 for one-hot columns.
        deviation: likewise; 1 for one-hot columns.
        classes: the raw value of each class; none of a regression.
        targets: the name of each target of a regression.
        target_mean: of each target, over training graphs.
        target_deviation: likewise.
        largest: nodes of the largest training graph.
        weighted: do edges have weights?
        sizes: graphs for training, validation and test.
        class_names: of graphs in tables, the name of each class.
        encoder: of graphs in tables, how the columns of nodes become attributes, as JSON; empty without such columns.

    Example:
        >>> from armagnn.data import folds, load_graphs
        >>> mutag = load_graphs("mutag")
        >>> found = Description.of(mutag, node_features(mutag), folds(mutag)[0])
        >>> found.kinds, found.vocabulary, found.classes, found.sizes
        (('degree', 'clustering', 'labels'), (0, 1, 2, 3, 4, 5, 6), (0, 1), (152, 17, 19))
        >>> tuple(found.features(mutag.select([3, 0])).shape)
        (36, 9)
    """

    kinds: tuple[str, ...]
    vocabulary: tuple[int, ...]
    attributes: int
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    classes: tuple[int, ...]
    targets: tuple[str, ...]
    target_mean: tuple[float, ...]
    target_deviation: tuple[float, ...]
    largest: int
    sizes: tuple[int, ...]
    weighted: bool = False
    class_names: tuple[str, ...] = ()
    encoder: str = ""

    @classmethod
    @checked
    def of(cls, dataset: GraphsDataset, features: NodeFeatures, fold: Fold, one_target: str = "") -> Description:
        """The description of a dataset whose training graphs are those of `fold`, with all targets or a single one."""
        scaler, targets = fit_scalers(dataset, features, fold)
        names = (one_target,) if one_target else dataset.targets
        mean, deviation = (
            ({}, {})
            if targets is None
            else (dict(zip(dataset.targets, each.tolist(), strict=True)) for each in (targets.mean, targets.deviation))
        )
        there = {"labels": dataset.node_labels is not None, "attributes": dataset.node_attr is not None}
        kinds = tuple(kind for kind in FEATURE_KINDS if kind in dataset.feature_kinds and there.get(kind, True))
        attributes = dataset.node_attr if "attributes" in kinds else None
        return cls(
            kinds,
            features.vocabulary,
            0 if attributes is None else attributes.shape[1],
            tuple(scaler.mean.tolist()),
            tuple(scaler.deviation.tolist()),
            () if dataset.regression else dataset.class_values or tuple(range(dataset.num_classes)),
            names,
            tuple(mean[name] for name in names),
            tuple(deviation[name] for name in names),
            int(dataset.ptr.diff()[fold.train].max()),
            (len(fold.train), len(fold.val), len(fold.test)),
            dataset.edge_weight is not None,
            dataset.class_names,
            "" if dataset.encoder is None else json.dumps(dataset.encoder.to_json(), sort_keys=True),
        )

    @classmethod
    @checked
    def read(cls, run: Run) -> Description:
        """The description that a run on graphs keeps."""
        try:
            return cls.from_json(run.description())
        except ValueError as error:
            raise RunError(
                f"{run.path / run.config.DESCRIPTION}: not the description of graphs ({error}). {AGAIN}"
            ) from error

    @property
    def regression(self) -> bool:
        """Are there real targets rather than classes?"""
        return not self.classes

    @property
    def outputs(self) -> int:
        """What the network puts out for each graph: scores of C classes, or T targets."""
        return len(self.classes) or len(self.targets)

    @property
    def table_encoder(self) -> TableEncoder | None:
        """How the columns of nodes in tables become attributes; None without such columns."""
        try:
            return TableEncoder.from_json(json.loads(self.encoder)) if self.encoder else None
        except (ValueError, RecursionError) as error:
            raise DataError(f"encoder is not the encoding of a table ({error})") from error

    @property
    def num_features(self) -> int:
        """Columns of the node features."""
        return len(self.mean)

    @checked
    def features(self, data: GraphsDataset) -> Tensor:
        """The features (N, F) of the nodes of `data`, scaled; of graphs that cannot be described alike, an error."""
        self._check(data)
        x = node_features(data, kinds=self.kinds, vocabulary=self.vocabulary).x
        return Scaler(torch.tensor(self.mean), torch.tensor(self.deviation))(x)

    @checked
    def own_units(self, outputs: Tensor) -> Tensor:
        """The targets (..., T) in their own units, from standardised ones."""
        return Scaler(torch.tensor(self.target_mean), torch.tensor(self.target_deviation)).inverse(outputs)

    def _check(self, data: GraphsDataset) -> None:
        """Refuse graphs that have other things than those of the run."""
        labels, attributes = data.node_labels, 0 if data.node_attr is None else data.node_attr.shape[1]
        parts = {
            "node labels": (labels is not None, "labels" in self.kinds),
            "edge weights": (data.edge_weight is not None, self.weighted),
        }
        for part, (here, there) in parts.items():
            if here != there:
                raise DataError(
                    f"{data.name}: has {'' if here else 'no '}{part}, but the data that the run was trained on has "
                    f"{'some' if there else 'none'}."
                )
        if attributes != self.attributes:
            raise DataError(
                f"{data.name}: has {attributes} node attributes, but the data that the run was trained on has "
                f"{self.attributes}."
            )
        if labels is None:
            return
        strange = ~torch.isin(labels, torch.tensor(self.vocabulary))
        if bool(strange.any()):
            node = int(strange.nonzero()[0])
            known = ", ".join(map(str, self.vocabulary[:SHOWN])) + (", ..." if len(self.vocabulary) > SHOWN else "")
            raise DataError(
                f"{data.name}: graph {int(data.graph[node]) + 1} (counted from 1) has a node with label "
                f"{int(labels[node])}; the labels that the run was trained on are {known}."
            )

    # ----------------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> dict[str, Any]:
        """The description as plain JSON."""
        return asdict(self)

    @classmethod
    @checked
    def from_json(cls, content: dict[str, Any]) -> Description:
        """The inverse of :meth:`to_json`; anything else is a DataError that says why."""
        later: dict[str, Any] = {"weighted": cls.weighted, "class_names": [], "encoder": ""}
        content = later | content  # older runs do not have them
        if content.keys() != {field.name for field in fields(cls)}:
            raise DataError("it does not have the entries that this version of armagnn knows")
        values = dict(content)
        for each in fields(cls):
            kind, many = re.findall("str|int|float|bool", str(each.type))[0], "tuple" in str(each.type)
            items = values[each.name] if many else [values[each.name]]
            if not isinstance(items, list) or not all(type(item).__name__ == kind and _fine(item) for item in items):
                raise DataError(f"{each.name} is not {'a list of ' if many else ''}{kind}")
            values[each.name] = tuple(items) if many else items[0]
        found = cls(**values)
        wrong = found._contradiction()
        if wrong:
            raise DataError(wrong)
        return found

    def _contradiction(self) -> str:
        """What does not fit together, or nothing."""
        measures = [kind for kind in self.kinds if kind in ("degree", "clustering")]
        columns = len(measures) + len(self.vocabulary) + self.attributes
        if list(self.kinds) != [kind for kind in FEATURE_KINDS if kind in self.kinds] or not self.kinds:
            return "kinds are not kinds of node features"
        if list(self.vocabulary) != sorted(set(self.vocabulary)) or bool(self.vocabulary) != ("labels" in self.kinds):
            return "vocabulary is not what kinds say"
        if self.attributes < 0 or bool(self.attributes) != ("attributes" in self.kinds):
            return "attributes is not what kinds say"
        if not columns == len(self.mean) == len(self.deviation):
            return "mean and deviation do not have one number for each feature"
        if bool(self.classes) == bool(self.targets) or len(set(self.classes)) != len(self.classes):
            return "there must be classes or targets"
        if not len(self.targets) == len(self.target_mean) == len(self.target_deviation):
            return "target_mean and target_deviation do not have one number for each target"
        if self.class_names and len(self.class_names) != len(self.classes):
            return "class_names does not have one name for each class"
        if self.encoder and len(self.table_encoder.features) != self.attributes:  # type: ignore[union-attr]
            return "encoder does not give the attributes of the nodes"
        if min(*self.deviation, *self.target_deviation, 1.0) <= 0:
            return "a deviation is not positive"
        if not 0 < self.largest <= LARGEST or len(self.sizes) != 3 or min(self.sizes) < 0:
            return "largest or sizes are not those of graphs"
        return ""


def _fine(item: object) -> bool:
    """Is it text, or a number that a tensor can hold?"""
    if isinstance(item, int):
        return -(2**63) <= item < 2**63
    return not isinstance(item, float) or math.isfinite(item)
