"""The same trials on a real Ray, of which a worker is killed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from armagnn.errors import ParameterError
from armagnn.training.engine import Observer, execute
from armagnn.training.record import to_csv
from armagnn.training.results_store import Store
from toy_trials import ToyJob, all_jobs, work


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with Store(tmp_path / "store") as store, pytest.raises(ParameterError, match=r"armagnn\[ray\]"):
        execute(all_jobs(), work, store, engine="ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    ray = pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))  # toy_trials is found by workers too
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        try:
            ray.init(
                address="local", num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False,
                logging_level="ERROR", object_store_memory=80 * 2**20,
                _temp_dir=str(tmp_path_factory.mktemp("r")),
            )  # fmt: skip
            yield ray
        finally:
            ray.shutdown()


class Told(Observer):
    def __init__(self) -> None:
        self.deaths: list[str] = []

    def lost(self, reason: str) -> None:
        self.deaths.append(reason)


def test_a_killed_worker_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    trap, log, told = tmp_path / "trap", tmp_path / "log", Told()
    trap.touch()
    with Store(tmp_path / "ray") as store, Store(tmp_path / "local") as local:
        assert execute(all_jobs(die=str(trap), log=str(log)), work, store, engine="ray", observer=told) == 24
        execute(all_jobs(), work, local)
        (tmp_path / "ray.csv").write_bytes(to_csv(store.select()))
        (tmp_path / "local.csv").write_bytes(to_csv(local.select()))
    assert told.deaths == ["WorkerCrashedError"]
    assert not trap.exists()
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "local.csv").read_bytes()
    assert len(log.read_text().splitlines()) <= 25  # of the job of the dead worker, only the rest was done again
    assert cluster.is_initialized()  # a cluster that was there before stays


def test_errors_come_through_and_the_rest_is_cancelled(cluster: Any, tmp_path: Path) -> None:
    jobs = [ToyJob("arma", (0,)), ToyJob("gcn", (0,), delay=100), ToyJob("gcn", (1,), fail=True)]
    with Store(tmp_path / "store") as store, pytest.raises(ParameterError, match="diverged"):
        execute(jobs, work, store, engine="ray")
