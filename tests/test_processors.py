from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from armagnn import processors
from armagnn.processors import allowed, memory_limit, quota, threads_for, to_set, usable


@pytest.mark.parametrize(
    ("cores", "share", "count"),
    [(1, math.inf, 1), (8, math.inf, 8), (8, 8.0, 8), (8, 16.0, 8), (8, 2.0, 2), (8, 1.5, 2), (8, 0.1, 1)],
)
def test_a_quota_is_a_number_of_threads(cores: int, share: float, count: int) -> None:
    assert usable(cores, share) == count


def test_what_is_set_where_the_user_has_set_nothing() -> None:
    assert to_set({}, 2, math.inf) == {"GOMP_SPINCOUNT": "1000"}
    assert to_set({"OMP_WAIT_POLICY": ""}, 8, 2.5) == {"GOMP_SPINCOUNT": "1000", "OMP_NUM_THREADS": "3"}


@pytest.mark.parametrize("name", processors.WAITING)
def test_the_users_way_of_waiting_stays(name: str) -> None:
    assert to_set({name: "0"}, 8, 2.0) == {"OMP_NUM_THREADS": "2"}


@pytest.mark.parametrize("name", processors.COUNTING)
def test_the_users_number_of_threads_stays(name: str) -> None:
    assert to_set({name: "7"}, 8, 2.0) == {"GOMP_SPINCOUNT": "1000"}
    assert threads_for(True, 8, {name: "8"}, 8, 2.0) == 8


def test_threads_of_a_training() -> None:
    assert threads_for(True, 8, {}, 8, math.inf) == 1
    assert threads_for(False, 8, {}, 8, math.inf) == 8
    assert threads_for(False, 8, {}, 8, 2.5) == 3
    assert threads_for(False, 4, {}, 8, 6.0) == 4  # MKL has one thread for two hyperthreads
    for chosen in (1, 3, 16):  # by torch.set_num_threads
        assert threads_for(True, chosen, {}, 8, 2.0) == chosen


def groups(tmp_path: Path, own: str, files: dict[str, str]) -> Path:
    """A root folder with control groups."""
    for name, text in (
        {"proc/self/cgroup": own} | {f"sys/fs/cgroup/{name}": text for name, text in files.items()}
    ).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("own", "files", "share"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        ("0::/a/b\n", {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "max 100000\n", "a/b/c/cpu.max": "1 100000"}, 0.5),
        ("0::/../../x\n", {"cpu.max": "200000 100000\n"}, 2.0),
        (
            "3:cpuset:/\n4:cpu,cpuacct:/docker/f00\n",
            {"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            3.0,
        ),
        (
            "4:cpu,cpuacct:/job\n",
            {"cpu,cpuacct/job/cpu.cfs_quota_us": "25000\n", "cpu,cpuacct/job/cpu.cfs_period_us": "50000\n"},
            0.5,
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("0::/\n", {"cpu.max": "much of it\n"}, math.inf),
        ("0::/\n", {"cpu.max": "100000 0\n"}, math.inf),
        ("nonsense\n", {}, math.inf),
    ],
)
def test_quotas_of_both_versions_of_control_groups(
    tmp_path: Path, own: str, files: dict[str, str], share: float
) -> None:
    assert quota(groups(tmp_path, own, files)) == share


@pytest.mark.parametrize(
    ("own", "files", "most"),
    [
        ("0::/a/b\n", {"a/memory.max": "3000\n", "a/b/memory.max": "max\n", "a/b/c/memory.max": "1"}, 3000),
        ("0::/\n", {"memory.max": "max\n"}, math.inf),
        ("4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "2000\n"}, 2000),
        ("4:cpu:/job\n", {"memory/job/memory.limit_in_bytes": "2000\n"}, math.inf),
        ("0::/\n", {"memory.max": "much\n"}, math.inf),
    ],
)
def test_memory_of_both_versions_of_control_groups(
    tmp_path: Path, own: str, files: dict[str, str], most: float
) -> None:
    assert memory_limit(groups(tmp_path, own, files)) == most


def test_no_control_groups_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path) == math.inf
    assert memory_limit(tmp_path) == math.inf


def test_processors_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "process_cpu_count", lambda: 5, raising=False)
    assert allowed() == 5
    monkeypatch.delattr(os, "process_cpu_count")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 4, 9}, raising=False)
    assert allowed() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert allowed() == 1


RUN = """
import os, sys
{before}
from armagnn.cli import main
sys.argv = ["armagnn", "--version"]
try:
    main()
except SystemExit:
    pass
print(os.environ.get("GOMP_SPINCOUNT"))
"""


@pytest.mark.parametrize(
    ("before", "own", "spins"), [("", {}, "1000"), ("import torch", {}, "None"), ("", {"GOMP_SPINCOUNT": "7"}, "7")]
)
def test_the_command_says_how_threads_wait_before_torch_is_there(before: str, own: dict[str, str], spins: str) -> None:
    names = {name: value for name, value in os.environ.items() if name not in processors.WAITING} | own
    code = RUN.format(before=before)
    ran = subprocess.run([sys.executable, "-c", code], env=names, capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == spins


def test_old_objects_are_seldom_looked_at_by_programs() -> None:
    program = "import gc; from armagnn import processors; processors.prepare(); print(*gc.get_threshold())"
    before = "import gc; import armagnn; print(*gc.get_threshold())"
    found = [
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for code in (before, program)
    ]
    assert found[1] == [*found[0][:2], str(processors.OLD)]
    assert int(found[0][2]) < processors.OLD  # a library leaves the interpreter alone
