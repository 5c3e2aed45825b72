"""What a run keeps of its tables: all that is needed to encode new nodes and to say what the outputs mean."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from armagnn.data.tables.edge_tables import EdgeColumns
from armagnn.data.tables.encoding import TableEncoder
from armagnn.data.tables.node_targets import TASKS
from armagnn.errors import DataError


@dataclass(frozen=True)
class TableSchema:
    """How nodes and edges are read, and what is learnt.

    Attributes:
        encoder: from columns to features; None where the features were given as numbers.
        num_features: F.
        id: the column of ids.
        target: the column of the target, or the columns of several labels.
        task: "classes", "labels" or "number".
        classes: the names of the classes or labels; none of a number.
        target_mean: of the number, over the training nodes.
        target_deviation: likewise.
        edges: what the columns of the edges mean.
        directed: is the direction of edges kept?

    Example:
        >>> from armagnn.data import NodeDataset
        >>> nodes = {"id": range(9), "x": [0.5] * 4 + [1.5] * 5, "label": ["a", "b", "a"] * 3}
        >>> schema = NodeDataset.from_tables(nodes, {"source": range(8), "target": range(1, 9)}).schema
        >>> schema.target, schema.classes, schema.encoder.features
        (('label',), ('a', 'b'), ['x'])
        >>> TableSchema.from_json(schema.to_json()) == schema
        True
    """

    encoder: TableEncoder | None
    num_features: int
    id: str
    target: tuple[str, ...]
    task: str
    classes: tuple[str, ...]
    target_mean: float = 0.0
    target_deviation: float = 1.0
    edges: EdgeColumns = field(default_factory=lambda: EdgeColumns("source", "target"))
    directed: bool = False

    @property
    def weighted(self) -> bool:
        """Do edges have weights?"""
        return bool(self.edges.weight)

    @property
    def outputs(self) -> int:
        """What a network puts out for each node: a score of each class or label, or one number."""
        return len(self.classes) or 1

    # ----------------------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> dict[str, Any]:
        """The schema as plain JSON."""
        plain = asdict(self) | {"encoder": None if self.encoder is None else self.encoder.to_json()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, content: Any) -> TableSchema:
        """The inverse of :meth:`to_json`; anything else is a DataError that says why."""
        if not isinstance(content, dict) or content.keys() != cls.__dataclass_fields__.keys():
            raise DataError("it does not have the entries that this version of armagnn knows")
        edges = content["edges"]
        texts = EdgeColumns.__dataclass_fields__.keys()
        if not isinstance(edges, dict) or edges.keys() != texts or not all(type(v) is str for v in edges.values()):
            raise DataError("edges are not names of columns")
        for name in ("target", "classes"):
            if not isinstance(content[name], list) or not all(type(each) is str for each in content[name]):
                raise DataError(f"{name} is not a list of texts")
        for name in ("target_mean", "target_deviation"):
            if type(content[name]) is not float or not math.isfinite(content[name]):
                raise DataError(f"{name} is no number")
        encoder = None if content["encoder"] is None else TableEncoder.from_json(content["encoder"])
        found = cls(
            **content
            | {"encoder": encoder, "edges": EdgeColumns(**edges)}
            | {name: tuple(content[name]) for name in ("target", "classes")}
        )
        wrong = found._contradiction()
        if wrong:
            raise DataError(wrong)
        return found

    def _contradiction(self) -> str:
        """What does not fit together, or nothing."""
        if type(self.id) is not str or type(self.directed) is not bool:
            return "id is no text, or directed neither true nor false"
        if self.task not in TASKS[1:] or bool(self.classes) == (self.task == "number"):
            return "the task and the classes do not fit"
        if len(self.classes) == 1 or len(set(self.classes)) < len(self.classes) or not self.target:
            return "there must be two different classes or more, and a target"
        if self.target_deviation <= 0:
            return "target_deviation is not positive"
        if type(self.num_features) is not int or self.num_features < 1:
            return "num_features is no number of features"
        if self.encoder is not None and len(self.encoder.features) != self.num_features:
            return "num_features is not what the encoding gives"
        return ""
