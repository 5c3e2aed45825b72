"""What may be asked of the operator of a graph: its kind, and the options of each kind."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final, Literal

from armagnn.errors import ParameterError, UnknownNameError

Kind = Literal["arma", "gcn", "laplacian", "adjacency"]
KINDS: Final = ("arma", "gcn", "laplacian", "adjacency")
SYMMETRIZE: Final = ("max", "mean")
OPTIONS: Final = ("gamma", "lambda_min", "lambda_max", "symmetrize")


@dataclass(frozen=True)
class Options:
    """The checked options of a builder; `GraphOperator` says what they mean.

    Example:
        >>> Options("gcn", gamma=0.5).default_range
        True
        >>> Options("laplacian", gamma=0.5)
        Traceback (most recent call last):
        ...
        armagnn.errors.ParameterError: gamma belongs to kind='gcn', not to 'laplacian'.
    """

    kind: str
    gamma: float = 1.0
    lambda_min: float | str = 0.0
    lambda_max: float | str = 2.0
    symmetrize: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kind, str) or self.kind not in KINDS:
            raise UnknownNameError("kind of operator", self.kind, KINDS)
        how = self.symmetrize
        if how is not None and (not isinstance(how, str) or how not in SYMMETRIZE):
            raise UnknownNameError("way to symmetrize", how, SYMMETRIZE)
        if not _is_number(self.gamma) or self.gamma < 0:
            raise ParameterError(f"gamma must be a finite number of at least 0, got {self.gamma!r}.")
        if self.kind != "gcn" and self.gamma != 1.0:
            raise ParameterError(f"gamma belongs to kind='gcn', not to {self.kind!r}.")
        for name, bound in (("lambda_min", self.lambda_min), ("lambda_max", self.lambda_max)):
            if not _is_number(bound) and not (isinstance(bound, str) and bound == "computed"):
                raise ParameterError(f"{name} must be a finite number or 'computed', got {bound!r}.")
        if not self.default_range and self.kind != "arma":
            raise ParameterError(f"lambda_min and lambda_max belong to kind='arma' (Eq. 9), not to {self.kind!r}.")

    @property
    def default_range(self) -> bool:
        """Do eigenvalues of L count as lying in [0, 2], so that M of Eq. 9 is I - L?"""
        return (self.lambda_min, self.lambda_max) == (0.0, 2.0)


def _is_number(value: object) -> bool:
    """Return whether it is a finite real number, of a size that a float holds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
