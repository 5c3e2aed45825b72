"""Datasets by name or path: where their files are, whether these are whole, and what they hold."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from armagnn.checks import choice, instance, integer
from armagnn.data.arrays import opened
from armagnn.data.catalogue import (
    CATALOGUE,
    DATA_VARIABLE,
    Entry,
    Kind,
    all_entries,
    folders,
    read_user_catalogue,
)
from armagnn.data.graph_files import parse_graphs_file, read_graphs_file
from armagnn.data.graphs import GraphsDataset
from armagnn.data.node_files import parse_node_file, read_node_file
from armagnn.data.nodes import NodeDataset
from armagnn.data.scaling import FEATURES, Features
from armagnn.data.sets.heterophily import parse_splits_file
from armagnn.data.sets.mnist import parse_mnist
from armagnn.data.sets.news import parse_news
from armagnn.data.sets.ppi import parse_multilabel_file
from armagnn.data.sets.qm9 import parse_qm9
from armagnn.data.signals import SignalsDataset
from armagnn.data.tu import read_tu_folder
from armagnn.errors import DataError, ParameterError, UnknownNameError, shown
from armagnn.files import check_digest, path_of, read_file, sha256_of

DatasetT = TypeVar("DatasetT", NodeDataset, GraphsDataset, SignalsDataset)
SPLITS = ("public", "random")
HOLDS: Final = {
    NodeDataset: ("a graph of labelled nodes", "train --dataset", "load"),
    GraphsDataset: ("a set of graphs", "train graphs --data", "load_graphs"),
    SignalsDataset: ("signals on one graph", "train signals --dataset", "load_signals"),
}
"""What a dataset of each class is, which command trains on it, and which function reads it."""


def load(
    name: str | os.PathLike[str], *, split: str | int = "public", seed: int | None = None, features: Features = "auto"
) -> NodeDataset:
    """Load a dataset of nodes by its name in the catalogue, or from your own file by a path that ends in ``.npz``.

    Cora travels inside the package. The files of the others are looked for in the folder that the environment
    variable ``ARMAGNN_DATA`` names, then in the user's data folder, then in ``../shared/data``. A file of the
    catalogue must have the SHA-256 that is written there; your own file is checked for everything else (see
    :func:`read_node_file`). ``split="random"`` draws another split with `seed` (0 if not given), of the sizes of the
    public one: see :meth:`NodeDataset.with_random_split`. The heterophily benchmarks have ten fixed splits, `split` 0
    to 9, of which the first is the public one.

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
    fixed = 0 if isinstance(split, str) else integer("split", split, 0, extra=" (or 'public', or 'random')")
    if (not isinstance(split, str) or choice("split", split, SPLITS) == "public") and seed is not None:
        raise ParameterError(f"seed={shown(seed)} draws a random split: pass split='random' as well.")
    choice("scaling of features", features, FEATURES)
    name = path_of(name)
    own = name.endswith(".npz")
    if not isinstance(split, str) and (own or find_entry(name).kind != "splits"):
        raise ParameterError(f"split={split}: {name} has one split; numbers are for datasets with several.")
    data = (
        read_node_file(name, features=features) if own else load_any(name, NodeDataset, features=features, split=fixed)
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
        return read_graphs_file(name)
    if name in (known := all_entries()):
        return load_any(name, GraphsDataset)
    if os.path.isdir(name) or os.path.basename(name) != name:
        return read_tu_folder(name)
    sets = [other for other, entry in known.items() if entry.kind in ("graphs", "molecules")]
    raise UnknownNameError("folder or set of graphs", name, sets)


def load_signals(name: str) -> SignalsDataset:
    """Load a set of signals on one graph by its name: ``mnist``, or ``20news`` after ``armagnn data make 20news``.

    Example:
        >>> load_signals("mnist")  # doctest: +SKIP
        SignalsDataset('mnist', signals=70000, nodes=784, edges=6396, classes=10, split=55000/5000/10000)
    """
    return load_any(name, SignalsDataset)


def prepared_name(name: str) -> str:
    """The name under which a set of documents, prepared on this machine, is in the user's catalogue.

    That of ``20news-plain`` is older than that dataset, which was 20news before.
    """
    return "20news-words" if name == "20news-plain" else f"{name}-prepared"


def find_entry(name: str) -> Entry:
    """The entry of a name, or an error that carries the nearest known one."""
    if isinstance(name, str) and name in CATALOGUE:
        return CATALOGUE[name]
    known = all_entries()
    return known[choice("dataset", name, known)]


def load_any(
    name: str, wanted: type[DatasetT] | None = None, *, features: Features = "auto", split: int = 0
) -> DatasetT:
    """Load a dataset of the catalogue, of whatever kind, or only if it is what is `wanted`."""
    entry: Entry = find_entry(name)
    called = name
    nodes, graphs = entry.kind in ("nodes", "multilabel", "splits"), entry.kind in ("graphs", "molecules")
    made: Any = NodeDataset if nodes else GraphsDataset if graphs else SignalsDataset
    if wanted not in (None, made):
        what, command, loader = HOLDS[made]
        raise DataError(
            f"{name!r} holds {what}: train on it by `armagnn {command} {name}`; in Python, {loader} reads it."
        )
    if entry.kind == "documents":
        called = prepared_name(name)
        prepared = all_entries().get(called)
        if prepared is None:
            plain = " --plain" if name == "20news-plain" else ""
            raise DataError(f"{name!r} must be prepared first, once: armagnn data make 20news{plain} (with gensim).")
        entry = replace(prepared, title=entry.title)
    places = [locate(entry, called, file) for file in (entry.file, *entry.also)]
    content, source = places[0].content(), places[0].source
    if entry.kind == "molecules":
        more = places[1]
        data: Any = parse_qm9(
            content, more.content(), name=name, source=source, graphs_source=more.source, provenance=entry.title
        )
    else:
        data = parse(entry, content, name=name, source=source, features=features, split=split)
    found: DatasetT = data
    return found


def parse(entry: Entry, content: bytes, *, name: str, source: str, features: Features = "auto", split: int = 0) -> Any:
    """Turn the bytes of a file into the dataset of its kind."""
    if entry.kind == "splits":
        title = entry.title
        return parse_splits_file(content, name=name, source=source, provenance=title, features=features, split=split)
    if entry.kind == "multilabel":
        # the parser itself says how much of the labels there is
        title = entry.title.partition(" (")[0]
        return parse_multilabel_file(content, name=name, source=source, provenance=title, features=features)
    if entry.kind == "nodes":
        return parse_node_file(content, name=name, source=source, provenance=entry.title, features=features)
    read: Any = {"graphs": parse_graphs_file, "images": parse_mnist, "signals": parse_news}[entry.kind]
    return read(content, name=name, source=source, provenance=entry.title)


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
    data: NodeDataset | GraphsDataset = parse(entry, content, name=str(file), source=str(file))
    return data


def kind_of(content: bytes, source: str) -> Kind:
    """The kind of a user's file, by the arrays that it has."""
    with opened(content, source) as archive:
        if "ptr" in archive.headers:
            return "graphs"
        return "multilabel" if "features_packed" in archive.headers else "nodes"


# ---------------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Place:
    """A file that is there, with the checksums that it may have."""

    path: Path
    accepted: tuple[str, ...]
    embedded: bool

    @property
    def source(self) -> str:
        """What to call the file: its path, or ``embedded/...`` if a package carries it."""
        return f"embedded/{self.path.name}" if self.embedded else str(self.path)

    def content(self) -> bytes:
        """The bytes of the file, which must have an accepted checksum."""
        content = self.raw()
        check_digest(content, self.source, *self.accepted)
        return content

    def raw(self) -> bytes:
        """The bytes of the file, whatever they are."""
        if self.embedded and not self.path.is_file():
            raise DataError(f"{self.source}: is missing. Install again the package that should carry it.")
        return read_file(self.path)


def find(entry: Entry, name: str, file: str | None = None) -> Place | None:
    """Find a file of a dataset; None if it is nowhere.

    What ``data fetch`` converted on this machine has the checksum that the user's catalogue registers: another version
    of the compression library writes the same arrays as other bytes.
    """
    file = file or entry.file
    sha256 = entry.also.get(file, entry.sha256)
    if entry.embedded:
        return Place(Path(entry.folder, file), (sha256,), embedded=True)
    for folder in folders():
        for path in dict.fromkeys([folder / file, folder / entry.subfolder / file]):
            if path.is_file():
                own = read_user_catalogue(folder).get(name)
                more = (own.sha256,) if own is not None and own.file == file else ()
                return Place(path, tuple(dict.fromkeys([sha256, *more])), embedded=False)
    return None


def locate(entry: Entry, name: str, file: str | None = None) -> Place:
    """Find a file of a dataset, or say where it was looked for."""
    place = find(entry, name, file)
    if place is None:
        looked = ", ".join(str(folder) for folder in folders())
        raise DataError(
            f"The file {file or entry.file!r} of dataset {name!r} was not found in: {looked}. "
            f"Set {DATA_VARIABLE} to the folder that holds it, or get it with: armagnn data fetch {name}"
        )
    return place


@dataclass(frozen=True)
class Check:
    """What was found of one file."""

    name: str
    file: str
    state: Literal["ok", "missing", "corrupt"]
    note: str


def verify(names: Iterable[str] = ()) -> list[Check]:
    """Hash every file of these datasets (of all, if none is named) and compare with the catalogue.

    Example:
        >>> verify(["cora"])
        [Check(name='cora', file='cora.npz', state='ok', note='embedded/cora.npz')]
    """
    if isinstance(names, str):
        names = [names]
    instance("names", names, (list, tuple, set, frozenset, dict), "a list of names of datasets")
    entries = {name: find_entry(name) for name in names} or all_entries()
    return [check_file(name, entry, file) for name, entry in entries.items() for file in entry.files]


def check_file(name: str, entry: Entry, file: str) -> Check:
    """Hash a file of a dataset and compare it with the catalogue."""
    place = find(entry, name, file)
    if place is None:
        return Check(name, file, "missing", "")
    try:
        digest = hashlib.sha256(place.raw()).hexdigest()
    except DataError as error:
        return Check(name, file, "corrupt", str(error))
    if digest in place.accepted:
        return Check(name, file, "ok", place.source)
    note = f"{place.source}: SHA-256 is {digest[:12]}..., not {place.accepted[0][:12]}..."
    return Check(name, file, "corrupt", note)
