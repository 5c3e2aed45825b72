"""A number to predict: how diabetes goes on in 442 patients, in a graph of those who are alike.

    python examples/diabetes_from_tables.py FOLDER

Every patient is joined with the ten whose ten measurements are nearest. These edges are made of the features, so a
network without edges could learn all that they say. The table that is printed shows whether the graph helps.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

from sklearn.datasets import load_diabetes

from armagnn.operators.neighbours import knn_graph
from armagnn.training import NodesConfig, summary_of, train_folds


def write_tables(folder: Path) -> tuple[Path, Path]:
    """Write nodes.csv and edges.csv."""
    patients = load_diabetes()
    edge_index, _ = knn_graph(patients.data, k=10)
    with open(folder / "nodes.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["patient", *patients.feature_names, "progression"])
        for number, (row, target) in enumerate(zip(patients.data.tolist(), patients.target.tolist(), strict=True)):
            writer.writerow([number, *row, target])
    with open(folder / "edges.csv", "w", newline="") as file:
        writer = csv.writer(file, delimiter=";")
        writer.writerow(["src", "dst"])
        writer.writerows((a, b) for a, b in edge_index.T.tolist() if a < b)
    return folder / "nodes.csv", folder / "edges.csv"


def main(folder: Path, folds: int = 5, **options: Any) -> dict[str, float]:
    """Train for all folds, and return R2 of the network and of both baselines."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes, edges = map(str, write_tables(folder))
    config = NodesConfig.for_tables(
        nodes=nodes, edges=edges, id_column="patient", target="progression", folds=folds, **options
    )
    runs = train_folds(config, folder / "run", overwrite=True)
    network = summary_of(runs)
    found = {"network": network["r2"]["mean"]}
    for name in ("mlp", "label_propagation"):
        found[name] = sum(run.baselines()[name]["test"]["r2"]["mean"] for run in runs) / folds
    print(f"R2 on the test nodes, mean over {folds} folds of {config.seeds} seeds:")
    print("  " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
    print(f"  deviation of the network over folds {network['r2']['std']:.3f}")
    print(f"  mean absolute error of the network {network['mae target']['mean']:.1f} (progression is 25 to 346)")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
