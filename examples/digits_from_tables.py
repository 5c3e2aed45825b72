"""Handwritten digits as a graph: two CSV files, of 1,797 images and of the images that look alike.

    python examples/digits_from_tables.py FOLDER

Every image is joined with the eight images that are nearest to it. A tenth of the images have a label; the others are
to be predicted, and their labels, which the files do not hold, say how well.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from armagnn.data import NodeDataset
from armagnn.operators.neighbours import knn_graph
from armagnn.training import TablePrediction, predict, train


def write_tables(folder: Path) -> list[str]:
    """Write nodes.csv and edges.csv, and return the labels of all images."""
    images, digits = load_digits(return_X_y=True)
    edge_index, _ = knn_graph(images, k=8)
    known = np.random.default_rng(0).random(len(digits)) < 0.1
    with open(folder / "nodes.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["image", *(f"pixel {n}" for n in range(images.shape[1])), "digit"])
        for number, (row, digit) in enumerate(zip(images.astype(int).tolist(), digits, strict=True)):
            writer.writerow([f"image-{number}", *row, f"digit {digit}" if known[number] else ""])
    with open(folder / "edges.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["from", "to"])
        writer.writerows((f"image-{a}", f"image-{b}") for a, b in edge_index.T.tolist() if a < b)
    return [f"digit {digit}" if not there else "" for digit, there in zip(digits, known, strict=True)]


def main(folder: Path, **options: Any) -> dict[str, float]:
    """Train on the labelled images, and return the accuracy on those without a label and of both baselines on test."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = write_tables(folder)
    data = NodeDataset.from_tables(folder / "nodes.csv", folder / "edges.csv", target="digit", id="image")
    run = train(data, folder / "run", overwrite=True, **options)
    found = predict(run, data)
    assert isinstance(found, TablePrediction)
    pairs = [(said, truth) for said, truth in zip(found.labels(), hidden, strict=True) if truth]
    share = sum(said == truth for said, truth in pairs) / len(pairs)
    baselines = {name: each["test"]["accuracy"]["mean"] for name, each in run.baselines().items()}
    print(f"{len(pairs)} images without a label: {100 * share:.1f} % right")
    test = run.metrics()["test"]["accuracy"]["mean"]
    print(f"labelled images kept for the test: {100 * test:.1f} %; {baselines}")
    return {"unlabelled": share, "test": test, **baselines}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    main(parser.parse_args().folder)
