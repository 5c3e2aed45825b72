"""Tolokers, 11,758 workers of a crowd-sourcing platform, as two CSV files: who will be banned?

    python examples/tolokers_from_tables.py FOLDER [--data ../shared/data/heterophily/tolokers.npz]

The file is that of Platonov et al., 2023, with ten features, ten splits of which the first counts, and one class that
is rare. So the metric is ROC-AUC, which the run reports next to accuracy and macro-F1.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np

from armagnn.training import NodesConfig, train

FILE = Path(__file__).parents[2] / "shared" / "data" / "heterophily" / "tolokers.npz"


def write_tables(file: Path, folder: Path) -> tuple[Path, Path]:
    """Write nodes.csv and edges.csv."""
    with np.load(file, allow_pickle=False) as content:
        x, y, edges = content["node_features"], content["node_labels"], content["edges"]
        masks = {part: content[f"{part}_masks"][0] for part in ("train", "val", "test")}
    split = np.full(len(y), "", dtype=object)
    for part, mask in masks.items():
        split[mask.astype(bool)] = part
    with open(folder / "nodes.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["worker", *(f"f{n}" for n in range(x.shape[1])), "split", "banned"])
        for number, row in enumerate(x.tolist()):
            writer.writerow([number, *row, split[number], "yes" if y[number] else "no"])
    with open(folder / "edges.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["source", "target"])
        writer.writerows(edges.tolist())
    return folder / "nodes.csv", folder / "edges.csv"


def main(folder: Path, file: Path = FILE, **options: Any) -> dict[str, float]:
    """Train, and return ROC-AUC on the test nodes, of the network and of both baselines."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = map(str, write_tables(file, folder))
    config = NodesConfig.for_tables(
        nodes=nodes, edges=edges, id_column="worker", target="banned", split="split", **options
    )
    run = train(config, folder / "run", overwrite=True)
    found = {"network": run.metrics()["test"]["roc_auc"]["mean"]}
    found |= {name: each["test"]["roc_auc"]["mean"] for name, each in run.baselines().items()}
    print("ROC-AUC on the test nodes: " + ", ".join(f"{name} {100 * value:.1f} %" for name, value in found.items()))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, default=FILE)
    chosen = parser.parse_args()
    main(chosen.folder, chosen.data)
