"""Arrays of files: packed and read without pickle, and checked with one kind of error."""

from __future__ import annotations

import numpy as np
import pytest

from armagnn.data.arrays import pack_arrays
from armagnn.errors import DataError


def test_objects_are_never_packed() -> None:
    with pytest.raises(DataError, match="Python objects"):
        pack_arrays({"y": np.array([print], dtype=object)})
