"""``armagnn data fetch``: get the originals over the network and convert them to our files."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

from armagnn.data.arrays import pack_arrays, sha256_of
from armagnn.data.catalogue import Entry, change_user_catalogue, check_name, find_entry, user_folder
from armagnn.data.loading import check_file, find, parse
from armagnn.data.sets.mnist import convert_mnist
from armagnn.data.sets.news import convert_20news
from armagnn.data.sets.planetoid import convert_planetoid
from armagnn.data.sets.ppi import convert_ppi
from armagnn.data.tu import convert_tu
from armagnn.errors import DataError
from armagnn.files import write_atomic

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
    if name == "mnist":
        return pack_arrays(convert_mnist())
    if name == "20news":
        return convert_20news()
    raise DataError("its original is not one that can be converted safely")
