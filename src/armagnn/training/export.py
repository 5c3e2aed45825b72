"""Finished trials as plain text."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from armagnn.errors import RunError
from armagnn.training.atomic import write_atomic
from armagnn.training.record import ORDER, Record, config_hash

COLUMNS = (
    *("dataset", "method", "protocol", "run", "fold", "metric", "value"),
    *("seed", "epochs", "seconds", "device", "config_hash"),
)


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


def export_csv(records: Iterable[Record], path: str | Path) -> None:
    """Write trials to a file, as `to_csv` has them.

    Example:
        >>> export_csv(store.select(table="graph-signal"), "results/graph-signal.csv")  # doctest: +SKIP
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror}).") from error
    write_atomic(path, to_csv(records))
