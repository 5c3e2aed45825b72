"""What lies in the user's data folder: own datasets, checked once and copied there, and originals from the network."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from armagnn.data.arrays import pack_arrays
from armagnn.data.catalogue import (
    CATALOGUE,
    DATA_VARIABLE,
    Entry,
    all_entries,
    change_user_catalogue,
    check_name,
    folders,
    read_user_catalogue,
    user_folder,
)
from armagnn.data.dataset_statistics import DatasetStatistics, statistics
from armagnn.data.loading import check_file, find, find_entry, kind_of, locate, parse, prepared_name
from armagnn.data.sets.mnist import convert_mnist
from armagnn.data.sets.news import convert_20news, parse_news, prepare_news
from armagnn.data.sets.planetoid import convert_planetoid
from armagnn.data.sets.ppi import convert_ppi
from armagnn.data.tu import convert_tu
from armagnn.errors import DataError, UnknownNameError
from armagnn.files import path_of, read_file, sha256_of, write_atomic


def add(path: str | os.PathLike[str], name: str | None = None) -> tuple[str, DatasetStatistics]:
    """Check a file, copy it into the data folder and register it; return its name and its statistics.

    The name is that of the file, unless another is given; afterwards ``load(name)`` (or ``load_graphs(name)``) finds
    it, and :func:`verify` watches over it. Names are never taken twice, except by the same bytes.

    Example:
        >>> add("papers.npz", name="papers")  # doctest: +SKIP
    """
    path = Path(path_of(path))
    if os.path.isdir(path):
        raise DataError(
            f"{path}: is a folder, which is used where it lies (armagnn train graphs --data {path}). Only .npz files "
            "are added."
        )
    content = read_file(path)
    sha256 = sha256_of(content)
    kind = kind_of(content, str(path))
    name = check_name(path.stem if name is None else name)
    entry = Entry(f"{name}.npz", sha256, f"added from {path.resolve()}", kind=kind)
    found = statistics(parse(entry, content, name=name, source=str(path)))
    folder = user_folder()
    known = all_entries().get(name)
    if known is not None and known.sha256 != sha256:
        raise DataError(f"The name {name!r} is taken by another dataset. Choose one with --name.")
    if known is not None and name not in read_user_catalogue(folder):
        raise DataError(f"{path}: these are the bytes of {name!r}, which the catalogue has already.")
    target = folder / entry.file
    if target.exists() and not (target.is_file() and read_file(target) == content):
        raise DataError(f"{target}: another file of this name lies there. Choose a name with --name.")
    if not target.exists():
        write_atomic(target, content)
    change_user_catalogue(folder, {name: replace(entry, statistics=found)})
    return name, found


def remove(name: str) -> str:
    """Take your own dataset out of the data folder: its row of the catalogue, and its file; return where that was.

    It is also for what :func:`fetch` or :func:`make_news` put there. The file that :func:`add` copied stays.

    Example:
        >>> remove("papers")  # doctest: +SKIP
    """
    folder = user_folder()
    rows = read_user_catalogue(folder)
    name = check_name(name)
    if name not in rows:
        other = next((each for each in folders() if name in read_user_catalogue(each)), None)
        if other is not None:
            raise DataError(f"{name!r} lies in {other}, not in your data folder {folder}: set {DATA_VARIABLE} to it.")
        if name in CATALOGUE:
            raise DataError(f"{name!r} is known to armagnn itself; only what was added, fetched or made is removed.")
        raise UnknownNameError("dataset of your own", name, rows)
    target = folder / rows[name].file
    change_user_catalogue(folder, {name: None})
    if not any(row.file == target.name for other, row in rows.items() if other != name):
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise DataError(f"{target}: cannot be removed ({error.strerror}); {name!r} is no longer known.") from error
    return str(target)


def make_news(seed: int = 0, *, plain: bool = False, force: bool = False) -> tuple[str, DatasetStatistics]:
    """Prepare 20news from its raw documents and register the result; return where it is, and its statistics.

    With `plain` it is ``20news-plain``, whose words are counted as armagnn did before.

    The file lies in the data folder, as does ``catalogue.json``, which has its checksum: both can be copied to a
    machine that has no gensim. A file that is there stays as it is, unless with `force`.

    Example:
        >>> make_news()  # doctest: +SKIP
    """
    dataset = "20news-plain" if plain else "20news"
    entry, name, folder = find_entry(dataset), prepared_name(dataset), user_folder()
    path = folder / f"{name}.npz"
    if path.exists() and not force:
        raise DataError(f"{path}: is there already; use it, or make it again with --force.")
    raw = locate(entry, dataset)
    content = pack_arrays(prepare_news(raw.content(), raw.source, name=dataset, seed=seed))
    found = statistics(parse_news(content, name=dataset, source=str(path)))
    write_atomic(path, content)
    source = f"prepared from {entry.file} with word2vec, seed {seed}"
    row = Entry(path.name, sha256_of(content), source, kind="signals", licence=entry.licence)
    change_user_catalogue(folder, {name: replace(row, statistics=found)})
    return str(path), found


# ----------------------------------------------------------------------------------------------- ``armagnn data fetch``

Get = Callable[[str], bytes]
PLANETOID: Final = "https://github.com/tkipf/gcn/raw/master/gcn/data/"
TU: Final = "https://www.chrsmrrs.com/graphkerneldatasets/"
HETEROPHILY: Final = "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/"
PPI: Final = "https://data.dgl.ai/dataset/ppi.zip"
MAX_BYTES: Final = 2**30
TIMEOUT: Final = 60.0
_READABLE = ("nodes", "multilabel", "graphs", "splits")


def download(url: str) -> bytes:
    """The bytes behind an ``https`` address."""
    if not url.startswith("https://"):
        raise DataError(f"{url}: only https addresses are fetched.")
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            content: bytes = answer.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise DataError(f"{url}: cannot be fetched ({getattr(error, 'reason', None) or error})") from error
    if len(content) > MAX_BYTES:
        raise DataError(f"{url}: is larger than {MAX_BYTES} bytes.")
    return content


def fetch(name: str, *, get: Get = download) -> str:
    """Get a dataset's originals, convert them, write the file into the data folder; return where it is.

    What is here already and whole is left as it is; what is corrupt is replaced. The new file is read back with all
    checks before it is kept. It holds the arrays of the catalogue's file (PPI's has all labels), but its bytes depend
    on the machine's compression library: where they differ, its checksum goes into the folder's ``catalogue.json``.

    Example:
        >>> fetch("cora")
        'embedded/cora.npz'
    """
    entry = find_entry(name)
    place = find(entry, name)
    if place is not None and (place.embedded or check_file(name, entry, entry.file).state == "ok"):
        return place.source
    folder = user_folder()
    path = folder / entry.file
    try:
        content = _convert(name, entry, get)
    except (DataError, OSError, ValueError) as error:  # scikit-learn raises the last two where there is no network
        raise DataError(
            f"{name!r} was not fetched: {str(error).rstrip('.')}. Put {', '.join(entry.files)} into {folder} (or set "
            "ARMAGNN_DATA to its folder)."
        ) from error
    if entry.kind in _READABLE:
        parse(entry, content, name=name, source=f"the original of {name!r}")
    sha256 = sha256_of(content)
    write_atomic(path, content)
    if sha256 != entry.sha256:
        row = Entry(entry.file, sha256, "data fetch", kind=entry.kind, licence=entry.licence)
        change_user_catalogue(folder, {check_name(name): row})
    return str(path)


def _convert(name: str, entry: Entry, get: Get) -> bytes:
    """Get the originals and return our file of them."""
    if name in ("cora", "citeseer", "pubmed"):
        return pack_arrays(convert_planetoid(name, lambda file: get(PLANETOID + file)))
    if name in ("enzymes", "proteins", "dd", "mutag"):
        title = Path(entry.file).stem
        return pack_arrays(convert_tu(title, get(f"{TU}{title}.zip")))
    if name == "ppi":
        return pack_arrays(convert_ppi(get(PPI)))
    if entry.kind == "splits":
        return get(HETEROPHILY + entry.file)
    if name.startswith("mnist"):
        return pack_arrays(convert_mnist())
    if name.startswith("20news"):
        return convert_20news()
    raise DataError("its original is not one that can be converted safely")
