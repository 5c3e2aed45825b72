"""Every room of the public API, with its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from attack import analysis, datasets, layers, learners, ranks, subjects, tasks, trainings
from attack.subjects import Call

ROOMS: dict[str, Callable[[], Iterator[Call]]] = {
    "operators": subjects.operators,
    "kernels": subjects.kernels_room,
    "solvers": analysis.solvers,
    "filters": analysis.filters,
    "spectral": analysis.spectral,
    "nn": layers.layers,
    "data": datasets.data_room,
    "tasks": tasks.tasks_room,
    "training": trainings.training_room,
    "estimators": learners.estimators_room,
    "distributed": ranks.ranks,
}
"""The functions read and write files in the current folder."""

PUBLIC = tuple(room for room in ROOMS if room != "kernels")
"""The rooms for users. The kernels trust their arguments, and can be attacked by name only: ``--rooms kernels``."""
