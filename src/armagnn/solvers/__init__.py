"""Fixed points and linear systems: each solver returns its solution and how it got there."""

from armagnn.solvers.anderson import anderson
from armagnn.solvers.fixed_point import FixedPoint, implicit
from armagnn.solvers.iteration import Solution, Statistics, picard

__all__ = ["FixedPoint", "Solution", "Statistics", "anderson", "implicit", "picard"]
