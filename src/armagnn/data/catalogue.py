"""The datasets known by name: where their files are and which bytes they must be."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from armagnn.data.dataset import NodeDataset
from armagnn.data.node_file import parse_node_file, read_node_file
from armagnn.errors import DataError, UnknownNameError

DATA_VARIABLE = "ARMAGNN_DATA"
SHARED_FOLDER = Path("..", "shared", "data")  # beside a checkout, relative to the current directory


@dataclass(frozen=True)
class Entry:
    """One dataset: its file, the SHA-256 of it, where it is from, and whether the package carries it."""

    file: str
    sha256: str
    source: str
    embedded: bool = False


_PLANETOID = "citation network of tkipf/gcn (MIT), split of Yang et al."

CATALOGUE: dict[str, Entry] = {
    "cora": Entry(
        "cora.npz",
        "4aa9fd9e3e37dffd4a747b1f8d9c5673f1efc0fa33094e483c5cb0ca7102446d",
        _PLANETOID,
        embedded=True,
    ),
    "citeseer": Entry("citeseer.npz", "5e651e1e66b8908ed64b33cdc15abdf8655936e339687177624e3709eed64b3d", _PLANETOID),
    "pubmed": Entry("pubmed.npz", "8fb640f334e4aba28dbbf632b4c97c59d9e8b058cf77563665b3aaa293dc0924", _PLANETOID),
}


def load(name: str | os.PathLike[str]) -> NodeDataset:
    """Load a dataset by its name in the catalogue, or from your own file by a path that ends in ``.npz``.

    Cora travels inside the package. The files of the others are looked for in the folder that the environment
    variable ``ARMAGNN_DATA`` names, then in ``../shared/data``. A file of the catalogue must have the SHA-256
    that is written there; your own file is checked for everything else (see :func:`read_node_file`).

    Example:
        >>> from armagnn.data import load
        >>> load("cora")
        NodeDataset('cora', nodes=2708, edges=10556, features=1433, classes=7, split=140/500/1000)
    """
    name = os.fspath(name)
    if name.endswith(".npz"):
        return read_node_file(name)
    if name not in CATALOGUE:
        raise UnknownNameError("dataset", name, CATALOGUE)
    entry = CATALOGUE[name]
    content, source = _content(name, entry)
    return parse_node_file(content, name=name, source=source, sha256=entry.sha256)


def _content(name: str, entry: Entry) -> tuple[bytes, str]:
    if entry.embedded:
        return resources.files("armagnn.data").joinpath("embedded", entry.file).read_bytes(), f"embedded {entry.file}"
    folders = [SHARED_FOLDER]
    if os.environ.get(DATA_VARIABLE):
        folders.insert(0, Path(os.environ[DATA_VARIABLE]))
    for folder in folders:
        path = folder / entry.file
        if path.is_file():
            try:
                return path.read_bytes(), str(path)
            except OSError as error:
                raise DataError(f"{path}: cannot be read ({error.strerror}). Check its permissions.") from error
    looked = ", ".join(str(folder) for folder in folders)
    raise DataError(
        f"The file {entry.file!r} of dataset {name!r} was not found in: {looked}. "
        f"Set {DATA_VARIABLE} to the folder that holds it."
    )
