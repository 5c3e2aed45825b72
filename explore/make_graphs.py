"""Write the graphs of the explorer's signal view, src/armagnn/explore/static/graphs.json. Run it again to change them.

The photograph is of Grace Hopper (U.S. Navy, public domain), the heights are of the ground near Jacksboro, Tennessee
(U.S. Geological Survey, public domain), both from matplotlib's sample data; Cora is the one in the package.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import matplotlib.cbook as samples
import networkx as nx
import numpy as np
from PIL import Image

from armagnn.data import load
from armagnn.operators.neighbours import knn_graph

OUT = Path(__file__).parents[1] / "src" / "armagnn" / "explore" / "static" / "graphs.json"


def packed(values: Any, dtype: str) -> str:
    """Return numbers as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode()


def graph(name: str, note: str, edges: Any, x: Any, pos: Any, **more: Any) -> dict[str, Any]:
    """Return a graph as the explorer takes it, with its places in the unit square."""
    edges = np.asarray(edges)
    low, high = pos.min(0), pos.max(0)
    place = (pos - low) / (high - low).max()
    return {
        "name": name,
        "note": note,
        "size": len(x),
        "rows": packed(edges[0], "<u2"),
        "columns": packed(edges[1], "<u2"),
        "x": packed(x, "<f4"),
        "pos": packed(place * 65535, "<u2"),
        **more,
    }


def photograph() -> dict[str, Any]:
    """Return an image on the grid of its pixels."""
    width, height = 44, 52
    image = Image.open(samples.get_sample_data("grace_hopper.jpg", asfileobj=False)).convert("L")
    x = np.asarray(image.crop((100, 20, 420, 400)).resize((width, height), Image.Resampling.LANCZOS)) / 255
    number = np.arange(width * height).reshape(height, width)
    pos = np.stack([number.ravel() % width, number.ravel() // width], 1).astype(float)
    note = "Every pixel is a node, joined to its neighbours. Grace Hopper, U.S. Navy, public domain."
    return graph("a photograph", note, [[], []], x.ravel(), pos, pixels=width, noise=0.15)  # the page knows a grid


def heights() -> dict[str, Any]:
    """Return heights of the ground at places chosen at random."""
    field = np.load(samples.get_sample_data("jacksboro_fault_dem.npz", asfileobj=False))["elevation"]
    rng = np.random.default_rng(4)
    found: list[tuple[float, float]] = []
    while len(found) < 300:  # places at random, but not too near to each other
        y, x = rng.uniform(0, field.shape[0] - 1), rng.uniform(0, field.shape[1] - 1)
        if all((y - v) ** 2 + (x - u) ** 2 > 12**2 for u, v in found):
            found.append((x, y))
    pos = np.array(found)
    x = np.array([float(field[round(v), round(u)]) for u, v in found])
    x -= x.mean()
    edges = knn_graph(pos, 6)
    edges = edges[0] if isinstance(edges, tuple) else edges
    once = edges[:, edges[0] < edges[1]].numpy()
    note = "Heights of the ground at 300 places near Jacksboro, Tennessee, in m above their mean (USGS)."
    return graph("a sensor network", note, np.unique(once, axis=1), x, pos, noise=150.0)


def papers() -> dict[str, Any]:
    """Return Cora with the known labels of one class."""
    cora = load("cora")
    whole = nx.Graph(cora.edge_index.T.tolist())
    nodes = sorted(max(nx.connected_components(whole), key=len))
    part = nx.relabel_nodes(whole.subgraph(nodes), {node: k for k, node in enumerate(nodes)})
    part = nx.Graph(sorted((min(e), max(e)) for e in part.edges if e[0] != e[1]))
    pos = nx.forceatlas2_layout(part, max_iter=150, seed=1, strong_gravity=False, gravity=2.0, scaling_ratio=2.0)
    place = np.array([pos[k] for k in range(len(nodes))])
    centre = np.median(place, 0)
    reach = np.linalg.norm(place - centre, axis=1)
    most = np.quantile(reach, 0.97)  # the few that are far out would make all others small
    nearer = (most + 0.15 * (reach - most).clip(0)) / reach.clip(1e-9)
    place = centre + (place - centre) * np.minimum(1, nearer)[:, None]
    known = (cora.y.numpy() == 3) & np.isin(np.arange(cora.num_nodes), cora.train_idx.numpy())
    x = known[nodes].astype(float)
    note = (
        "Papers and their citations, the largest component of Cora. The signal is 1 at papers that are known to be on "
        "neural networks: a low-pass filter spreads it to those that may be."
    )
    edges = np.array(sorted(part.edges)).T
    return graph("Cora, known labels", note, edges, x, place, stretch=True)


if __name__ == "__main__":
    found = [photograph(), heights(), papers()]
    OUT.write_text(json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print({each["name"]: each["size"] for each in found}, OUT.stat().st_size)
