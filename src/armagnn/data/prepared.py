"""What is prepared once on a machine and kept in its catalogue: 20news as signals on a graph of words."""

from __future__ import annotations

from typing import Final

from armagnn.data.arrays import check_digest, pack_arrays
from armagnn.data.catalogue import find_entry, prepared_name
from armagnn.data.counts import Statistics, statistics
from armagnn.data.news import parse_news, prepare_news
from armagnn.data.registry import Registered, register
from armagnn.data.store import locate, user_folder
from armagnn.errors import DataError
from armagnn.files import write_atomic

NAME: Final = "20news"


def make_news(seed: int = 0, *, force: bool = False) -> tuple[str, Statistics]:
    """Prepare 20news from its raw documents and register the result; return where it is, and its statistics.

    The file lies in the data folder beside ``catalogue.json``, which has its checksum: both can be copied to a machine
    that has no gensim. One that is there is left as it is, unless with `force`.

    Example:
        >>> make_news()  # doctest: +SKIP
    """
    entry, name, folder = find_entry(NAME), prepared_name(NAME), user_folder()
    path = folder / f"{name}.npz"
    if path.exists() and not force:
        raise DataError(f"{path}: is there already; use it, or make it again with --force.")
    raw = locate(entry, NAME)
    content = pack_arrays(prepare_news(raw.content(), raw.source, seed=seed))
    found = statistics(parse_news(content, name=NAME, source=str(path)))
    write_atomic(path, content)
    source = f"prepared from {entry.file} with word2vec, seed {seed}"
    sha256 = check_digest(content, str(path))
    register(folder, name, Registered(path.name, sha256, "signals", source, entry.licence, dict(found)))
    return str(path), found
