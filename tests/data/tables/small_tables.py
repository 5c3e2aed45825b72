"""Two communities of people, as tables: what a stranger brings."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Columns = dict[str, list[Any]]


def people(count: int = 60, seed: int = 0) -> tuple[Columns, Columns]:
    """Nodes (id, age, city, member, since, label, income) and edges; edges mostly join people with one label."""
    draw = np.random.default_rng(seed)
    label = np.arange(count) % 2
    nodes: Columns = {
        "id": [f"p{number}" for number in range(count)],
        "age": (30 + 10 * label + draw.normal(0, 8, count)).round(1).tolist(),
        "city": [("Rome", "Oslo", "Lima")[place] for place in draw.integers(0, 3, count)],
        "member": draw.integers(0, 2, count).astype(bool).tolist(),
        "since": [f"20{10 + number % 10}-0{1 + number % 9}-11" for number in range(count)],
        "label": [("blue", "red")[each] for each in label],
        "income": (1000 + 500 * label + draw.normal(0, 100, count)).round(2).tolist(),
    }
    ends = draw.integers(0, count, (4 * count, 2))
    kept = ends[(label[ends[:, 0]] == label[ends[:, 1]]) | (draw.random(len(ends)) < 0.2)]
    kept = kept[kept[:, 0] != kept[:, 1]]
    edges: Columns = {"source": [f"p{a}" for a in kept[:, 0]], "target": [f"p{b}" for b in kept[:, 1]]}
    return nodes, edges


def write_csv(path: Path, columns: Mapping[str, Iterable[Any]], delimiter: str = ",", encoding: str = "utf-8") -> Path:
    """Write a table; None is an empty field."""
    with open(path, "w", newline="", encoding=encoding) as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_people(folder: Path, **changes: Any) -> tuple[Path, Path]:
    """Write both tables into a folder; `changes` replace columns of the nodes."""
    nodes, edges = people()
    return write_csv(folder / "nodes.csv", {**nodes, **changes}), write_csv(folder / "edges.csv", edges)
