"""A finished trial: what determined it, and what came out.

It is known by what determines it (:func:`trial_key`): before it is done, and on every machine.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from armagnn.checks import integer
from armagnn.errors import ParameterError, shown

CellName = tuple[str, str, str]
"""The cell of a table: dataset, method, protocol."""


def canonical(content: object) -> str:
    """JSON with one text for one content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(content: object) -> str:
    """SHA-256 of a content."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def config_hash(config: dict[str, Any]) -> str:
    """The short name of a configuration in exported tables.

    Example:
        >>> config_hash({"method": "arma", "stacks": 2})
        '2ffcf321c3aa'
    """
    return digest(config)[:12]


def trial_key(table: str, config: dict[str, Any], seed: int, fold: int, data_sha256: str) -> str:
    """SHA-256 of all that determines a trial: known before the trial is done, and the same on every machine.

    `config` must hold everything else that tells two rows of a table apart (dataset, method, protocol, ...).

    Example:
        >>> trial_key("node-classification", {"method": "arma", "stacks": 2}, seed=0, fold=0, data_sha256="")[:12]
        '0e8e65935456'
    """
    return digest([table, config, seed, fold, data_sha256])


@dataclass(frozen=True)
class Record:
    """A finished trial: what determined it, and what came out.

    Attributes:
        table: name of the table it belongs to, which is also the name of the exported file.
        dataset: the dataset, e.g. "cora" or "qm9/mu".
        method: "arma", "gcn", ...
        protocol: "paper", "tuned", or another of the table.
        run: number of the repetition.
        fold: number of the fold, 0 where there are none.
        seed: what randomness starts from.
        config: plain JSON of everything that determines the trial.
        metrics: results by name, finite.
        epochs: epochs trained.
        seconds: time taken.
        versions: of the software, by name.
        data_sha256: checksum of the data.
        device: name of the hardware.

    Example:
        >>> record = Record("demo", "cora", "arma", "paper", 0, 0, 7, {"lr": 0.01}, {"accuracy": 83.4})
        >>> record.key == trial_key("demo", {"lr": 0.01}, seed=7, fold=0, data_sha256="")
        True
    """

    table: str
    dataset: str
    method: str
    protocol: str
    run: int
    fold: int
    seed: int
    config: dict[str, Any]
    metrics: dict[str, float]
    epochs: int = 0
    seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    data_sha256: str = ""
    device: str = "cpu"

    def __post_init__(self) -> None:
        texts = {name: getattr(self, name) for name in TEXTS}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise ParameterError(f"{name} of a trial must be a text, got {shown(text)}.")
        if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", self.table):  # it becomes a file name
            raise ParameterError(f"table is {self.table!r}; use lower-case letters, digits and dashes.")
        for name in sorted(INTEGERS):  # numbers may be numpy's; the store keeps Python's, of 64 bits
            object.__setattr__(self, name, integer(name, getattr(self, name), -(2**63), 2**63 - 1))
        for name in ("metrics", "versions"):
            found = getattr(self, name)
            if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
                raise ParameterError(f"{name} of a trial of {self.cell} must be a dict by names, got {shown(found)}.")
        if not all(isinstance(version, str) for version in self.versions.values()):
            raise ParameterError(f"versions of a trial of {self.cell} must be texts, got {shown(self.versions)}.")
        try:
            object.__setattr__(self, "seconds", float(self.seconds))
            object.__setattr__(self, "metrics", {name: float(value) for name, value in self.metrics.items()})
            same = json.loads(canonical(self.config)) == self.config  # a tuple, say, would come back as a list
        except (TypeError, ValueError, RecursionError, OverflowError, RuntimeError) as error:
            raise ParameterError(f"A trial of {self.cell} cannot be kept: {error}.") from error
        if not same or not isinstance(self.config, dict):
            raise ParameterError(
                f"config of a trial of {self.cell} is no plain JSON (use dicts with names, and lists)."
            )
        if not all(math.isfinite(value) for value in (*self.metrics.values(), self.seconds)):
            raise ParameterError(f"The training of {self.cell}, seed {self.seed} diverged: metrics {self.metrics}.")

    @cached_property
    def key(self) -> str:
        """What the trial is known by."""
        return trial_key(self.table, self.config, self.seed, self.fold, self.data_sha256)

    @property
    def cell(self) -> CellName:
        """The cell of the table: dataset, method, protocol."""
        return self.dataset, self.method, self.protocol


TEXTS = ("table", "dataset", "method", "protocol", "data_sha256", "device")
FIELDS = tuple(each.name for each in fields(Record))
JSON_FIELDS = {"config", "metrics", "versions"}
ORDER = ("table", "dataset", "method", "protocol", "run", "fold", "seed")
INTEGERS = {"run", "fold", "seed", "epochs"}

COLUMNS = (
    *("dataset", "method", "protocol", "run", "fold", "metric", "value"),
    *("seed", "epochs", "seconds", "device", "config_hash"),
)
"""The columns of an exported table."""


def to_csv(records: Iterable[Record]) -> bytes:
    """Trials as plain text, one row per trial and metric, in an order that depends on them alone."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for record in sorted(records, key=lambda r: (*(getattr(r, name) for name in ORDER), r.key)):
        for metric, value in sorted(record.metrics.items()):
            result = [*record.cell, record.run, record.fold, metric, repr(value)]
            origin = [record.seed, record.epochs, f"{record.seconds:.3f}", record.device, config_hash(record.config)]
            rows.writerow([*result, *origin])
    return text.getvalue().encode()
