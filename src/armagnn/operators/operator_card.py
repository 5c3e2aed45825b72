"""What a notebook shows of a sparse matrix or an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from armagnn.notebook_cards import bars, card

if TYPE_CHECKING:
    from armagnn.operators.csr import CSR

BINS = 20


def operator_card(matrix: CSR) -> str:
    """Return a table of what the matrix is, and how many entries its rows have, as HTML.

    Example:
        >>> from armagnn.operators import grid
        >>> card = operator_card(grid(2, 3)[0])
        >>> "6 nodes" in card, "<svg" in card
        (True, True)
    """
    counts = (matrix.rowptr[1:] - matrix.rowptr[:-1]).detach()
    kind = getattr(matrix, "kind", None)
    size = f"{matrix.shape[0]:,} × {matrix.shape[1]:,}" if kind is None else f"{matrix.shape[0]:,} nodes"
    rows = {"size": size, "nonzeros": f"{matrix.nnz:,}"}
    if kind is not None:
        rows["direction"] = "symmetric" if matrix.symmetric else "directed"
    if getattr(matrix, "shift", 0.0):
        rows["shift"] = f"{matrix.shift:.4g}"  # type: ignore[attr-defined]
    rows["type"] = f"{str(matrix.dtype).removeprefix('torch.')} on {matrix.device}"
    picture = ""
    if counts.numel() and not counts.is_meta:
        counts = counts.cpu()
        least, most = int(counts.min()), int(counts.max())
        rows["entries in a row"] = f"{least} to {most}, mean {matrix.nnz / len(counts):.3g}"
        if most > least:
            found = torch.histc(counts.double(), min(BINS, most - least + 1), least - 0.5, most + 0.5).tolist()
            picture = bars(found, "rows by their number of entries", (f"{least} entries", f"{most}"))
    return card(f"{type(matrix).__name__}" + ("" if kind is None else f" of kind {kind}"), rows, picture)
