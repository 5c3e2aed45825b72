"""Cora as two CSV files, trained from them, gives what the catalogue's Cora gives.

    python examples/cora_from_tables.py FOLDER [--seeds 10]

The files hold what a person would export: one column for each word, the topic, a column with the split.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from armagnn.data import NodeDataset, load
from armagnn.training import NodesConfig, train


def export(data: NodeDataset, folder: Path) -> tuple[Path, Path]:
    """Write nodes.csv and edges.csv."""
    split = [""] * data.num_nodes
    for part in ("train", "val", "test"):
        for node in data.idx(part).tolist():
            split[node] = part
    words = (data.x.to_dense() > 0).int().tolist()
    with open(folder / "nodes.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["paper", "topic", "split", *(f"word {n}" for n in range(data.num_features))])
        for node, (row, label) in enumerate(zip(words, data.y.tolist(), strict=True)):
            writer.writerow([f"paper-{node}", f"topic {label}", split[node], *row])
    with open(folder / "edges.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows((f"paper-{a}", f"paper-{b}") for a, b in data.edge_index.T.tolist() if a <= b)
    return folder / "nodes.csv", folder / "edges.csv"


def main(folder: Path, **options: Any) -> tuple[dict[str, float], dict[str, float]]:
    """Train from the files and from the catalogue, and return the test accuracies of both."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = map(str, export(load("cora"), folder))
    tables = {"nodes": nodes, "edges": edges, "id_column": "paper", "target": "topic", "split": "split"}
    chosen = {**NodesConfig.defaults("cora", "arma"), **options}
    ours, known = NodesConfig(**tables, features="rows", **chosen), NodesConfig(**chosen)
    runs = [train(config, folder / name, overwrite=True) for name, config in (("tables", ours), ("catalogue", known))]
    first, second = (run.metrics()["test"]["accuracy"] for run in runs)
    print(f"from two CSV files: {100 * first['mean']:.2f} ± {100 * first['std']:.2f} %")
    print(f"from the catalogue: {100 * second['mean']:.2f} ± {100 * second['std']:.2f} %")
    return first, second


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=2000)
    chosen = parser.parse_args()
    main(chosen.folder, seeds=chosen.seeds, epochs=chosen.epochs)
