"""Datasets by name or path, loaded as what they are: nodes, graphs or signals."""

from __future__ import annotations

import os
from pathlib import Path

from armagnn.checks import choice
from armagnn.data.arrays import opened, path_of, read_file, sha256_of
from armagnn.data.catalogue import Entry, Kind, all_entries, find_entry
from armagnn.data.graphs import GraphsDataset, parse_graphs_file, read_graphs_file
from armagnn.data.locations import locate
from armagnn.data.nodes import NodeDataset, parse_node_file, read_node_file
from armagnn.data.scaling import FEATURES, Features
from armagnn.data.sets.mnist import parse_mnist
from armagnn.data.sets.news import parse_news
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.data.sets.qm9 import parse_qm9
from armagnn.data.signals import SignalsDataset
from armagnn.data.tu import read_tu_folder
from armagnn.errors import DataError, ParameterError, UnknownNameError, shown

SPLITS = ("public", "random")


def load(
    name: str | os.PathLike[str], *, split: str = "public", seed: int | None = None, features: Features = "auto"
) -> NodeDataset:
    """Load a dataset of nodes by its name in the catalogue, or from your own file by a path that ends in ``.npz``.

    Cora travels inside the package. The files of the others are looked for in the folder that the environment
    variable ``ARMAGNN_DATA`` names, then in the user's data folder, then in ``../shared/data``. A file of the
    catalogue must have the SHA-256 that is written there; your own file is checked for everything else (see
    :func:`read_node_file`). ``split="random"`` draws another split with `seed` (0 if not given), of the sizes of the
    public one: see :meth:`NodeDataset.with_random_split`.

    `features` says how X is scaled: ``"rows"`` (each row divided by its sum, for bags of words), ``"standardise"`` (on
    the training nodes) or ``"none"``. By default a dataset of the catalogue has its own scaling, and your own files are
    standardised; see :data:`armagnn.data.scaling.FEATURES`.

    Example:
        >>> from armagnn.data import load
        >>> load("cora")
        NodeDataset('cora', nodes=2708, edges=10556, features=1433, classes=7, split=140/500/1000)
        >>> load("cora", split="random", seed=3).train_idx[:5]
        tensor([26, 29, 41, 65, 66])
    """
    if choice("split", split, SPLITS) == "public" and seed is not None:
        raise ParameterError(f"seed={shown(seed)} draws a random split: pass split='random' as well.")
    choice("scaling of features", features, FEATURES)
    name = path_of(name)
    if name.endswith(".npz"):
        data: NodeDataset | GraphsDataset = read_node_file(name, features=features)
    else:
        data = load_any(name, features=features)
    if not isinstance(data, NodeDataset):
        raise DataError(
            f"{name!r} is a set of graphs, not a graph of labelled nodes: train on it by `armagnn train graphs --data "
            f"{name}`; in Python, load_graphs reads it."
        )
    return data.with_random_split(0 if seed is None else seed) if split == "random" else data


def load_graphs(name: str | os.PathLike[str]) -> GraphsDataset:
    """Load a set of graphs by its name in the catalogue, from your ``.npz`` file, or from your folder in TU's format.

    MUTAG travels inside the package; the files of the others are looked for as :func:`load` does. A folder is one that
    is there under a name that the catalogue does not have: see :func:`read_tu_folder`.

    Example:
        >>> from armagnn.data import load_graphs
        >>> load_graphs("mutag").num_graphs
        188
    """
    name = path_of(name)
    if name.endswith(".npz"):
        data: NodeDataset | GraphsDataset = read_graphs_file(name)
    elif name in (known := all_entries()):
        data = load_any(name)
    elif os.path.isdir(name) or os.path.basename(name) != name:
        data = read_tu_folder(name)
    else:
        sets = [other for other, entry in known.items() if entry.kind in ("graphs", "molecules")]
        raise UnknownNameError("folder or set of graphs", name, sets)
    if not isinstance(data, GraphsDataset):
        raise DataError(
            f"{name!r} has labelled nodes, it is not a set of graphs: train on it by `armagnn train --dataset {name}`; "
            "in Python, load reads it."
        )
    return data


def load_signals(name: str) -> SignalsDataset:
    """Load a set of signals on one graph by its name: ``mnist``, or ``20news`` after ``armagnn data make 20news``.

    Example:
        >>> load_signals("mnist")  # doctest: +SKIP
        SignalsDataset('mnist', signals=70000, nodes=784, edges=6396, classes=10, split=55000/5000/10000)
    """
    entry = find_entry(name)
    if entry.kind == "documents":
        prepared = all_entries().get(prepared_name(name))
        if prepared is None:
            raise DataError(f"{name!r} must be prepared first, once: armagnn data make {name} (with gensim).")
        place = locate(prepared, prepared_name(name))
        return parse_news(place.content(), name=name, source=place.source, provenance=entry.title)
    if entry.kind not in ("images", "signals"):
        raise DataError(
            f"{name!r} holds {entry.kind}, not signals on one graph: `armagnn data info {name}` shows it; in Python, "
            "load or load_graphs reads it."
        )
    place = locate(entry, name)
    read = parse_mnist if entry.kind == "images" else parse_news
    return read(place.content(), name=name, source=place.source, provenance=entry.title)


def prepared_name(name: str) -> str:
    """The name under which a set of documents, prepared on this machine, is in the user's catalogue."""
    return f"{name}-words"


def load_any(name: str, *, features: Features = "auto") -> NodeDataset | GraphsDataset:
    """Load a dataset of the catalogue as whatever it is."""
    entry = find_entry(name)
    if entry.kind == "molecules":
        return load_molecules(entry, name)
    if entry.kind not in ("nodes", "multilabel", "graphs"):
        raise DataError(
            f"{name!r} holds {entry.kind}, signals on one graph: train on them by `armagnn reproduce graph-signal`; in "
            "Python, load_signals reads them."
        )
    place = locate(entry, name)
    return parse(entry, place.content(), name=name, source=place.source, features=features)


def load_molecules(entry: Entry, name: str) -> GraphsDataset:
    """Load QM9 from its two files."""
    (graphs_file,) = entry.also
    table, graphs = locate(entry, name), locate(entry, name, graphs_file)
    return parse_qm9(
        table.content(), graphs.content(),
        name=name, source=table.source, graphs_source=graphs.source, provenance=entry.title,
    )  # fmt: skip


def parse(
    entry: Entry, content: bytes, *, name: str, source: str, features: Features = "auto"
) -> NodeDataset | GraphsDataset:
    """Turn the bytes of a file into the dataset of its kind."""
    if entry.kind == "multilabel":
        # the parser itself says how much of the labels there is
        title = entry.title.partition(" (")[0]
        return parse_multilabel_file(content, name=name, source=source, provenance=title, features=features)
    if entry.kind == "graphs":
        return parse_graphs_file(content, name=name, source=source, provenance=entry.title)
    return parse_node_file(content, name=name, source=source, provenance=entry.title, features=features)


def read_own(path: str | os.PathLike[str]) -> NodeDataset | GraphsDataset:
    """Read your own file, of whichever kind, or your folder of graphs in TU's format.

    Example:
        >>> read_own("papers.npz")  # doctest: +SKIP
    """
    file = Path(path_of(path))
    if os.path.isdir(file):
        return read_tu_folder(file)
    content = read_file(file)
    entry = Entry(file.name, sha256_of(content), "", kind=kind_of(content, str(file)))
    return parse(entry, content, name=str(file), source=str(file))


def kind_of(content: bytes, source: str) -> Kind:
    """The kind of a user's file, by the arrays that it has."""
    with opened(content, source) as archive:
        if "ptr" in archive.headers:
            return "graphs"
        return "multilabel" if "features_packed" in archive.headers else "nodes"
