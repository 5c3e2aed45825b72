"""Named arrays from the bytes of an ``.npz`` file, without pickle, with one kind of error."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from armagnn.errors import DataError

Arrays = dict[str, NDArray[np.generic]]


def read_arrays(content: bytes, names: Iterable[str], source: str) -> Arrays:
    """Read the arrays `names` from the bytes of an ``.npz`` file; `source` names the file in errors.

    Every array is read whole here, so that zip's own CRC-32 has vouched for all that is returned.
    """
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as npz:
            if isinstance(npz, np.ndarray):
                raise DataError(f"{source}: a single array, not an .npz archive of named arrays.")
            missing = [name for name in names if name not in npz.files]
            if missing:
                raise DataError(f"{source}: not a node-classification file, it lacks the arrays {', '.join(missing)}.")
            return {name: npz[name] for name in names}
    except DataError:
        raise
    except Exception as error:
        # Damaged archives reach us as a dozen unrelated types (zlib, struct, zip, numpy, tokenizer, memory):
        # what they share is that the file, not the program, is at fault.
        raise DataError(
            f"{source}: not a readable .npz file ({type(error).__name__}: {error}). "
            "It is corrupt, truncated or of another format: fetch it again."
        ) from error
