"""``armagnn train nodes --parts --engine ray``: Ray Train starts the ranks; without Ray there is one clear error."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from armagnn.cli import app
from armagnn.distributed import partition_dataset
from armagnn.distributed.part_training import train_parts
from armagnn.distributed.ray_ranks import train_with_ray
from armagnn.errors import RankError
from armagnn.training import Run
from armagnn.training.parts_config import PartsConfig
from sixty_nodes import sixty_nodes

INSTALL = "pip install 'armagnn[ray]'"
OPTIONS = ["--epochs", "8", "--patience", "20", "--seeds", "2", "--hidden", "4"]


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    partition_dataset(sixty_nodes(), tmp_path / "parts", 2)
    return tmp_path / "parts"


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """The names of Ray's sockets begin with its folder, and must have less than 108 letters."""
    folder = Path(tempfile.mkdtemp())
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("missing", ["ray", "ray.train"])
def test_without_ray_the_extra_is_named(
    parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Ray may be there without what Ray Train needs."""
    if missing == "ray.train":
        pytest.importorskip("ray", reason=f"Ray is not installed. Install it with: {INSTALL}")
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setenv("COLUMNS", "200")
    words = ["train", "nodes", "--parts", str(parts), "--engine", "ray", *OPTIONS, "--out", str(tmp_path / "run")]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 2, found.output
    assert " ".join(found.output.split()).count(f"Ray Train is not installed. Install it with: {INSTALL}") == 1
    assert "Traceback" not in found.output
    assert not (tmp_path / "run").exists()


def test_ray_gives_the_metrics_of_one_process(parts: Path, tmp_path: Path, short_folder: Path) -> None:
    """The command, on a Ray of its own, which it starts and ends."""
    reason = f"Ray Train is not installed. Install it with: {INSTALL}"
    pytest.importorskip("ray.train", reason=reason, exc_type=ImportError)
    words = ["train", "nodes", "--parts", str(parts), "--engine", "ray", *OPTIONS, "--out", str(tmp_path / "run")]
    environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    environment |= {"RAY_TMPDIR": str(short_folder), "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "armagnn", *words], env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=200)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, output
    assert output.count("Run folder") == 1
    run = Run.open(tmp_path / "run")
    assert run.complete
    one = train_parts(run.config, tmp_path / "one")
    assert isinstance(run.config, PartsConfig)
    assert one is not None
    for ours, theirs in zip(run.trials(), one.trials(), strict=True):
        assert ours.history["val_loss"] == pytest.approx(theirs.history["val_loss"], rel=1e-4)
        assert ours.test["accuracy"] == pytest.approx(theirs.test["accuracy"], abs=0.051)  # one of twenty nodes


def test_the_ranks_are_told_whole_paths(parts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's workers run in a folder of their own."""
    ray, torch_train = MagicMock(), MagicMock()
    ray.cluster_resources.return_value = {"CPU": 2}
    torch_train.TorchTrainer.return_value.fit.side_effect = RuntimeError("seen enough")
    for name, module in {"ray": ray, "ray.train": MagicMock(), "ray.train.torch": torch_train}.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RankError, match="seen enough"):
        train_with_ray(PartsConfig(parts="parts", seeds=1), Path("run"))
    given = torch_train.TorchTrainer.call_args.kwargs["train_loop_config"]
    assert (given["out"], given["config"]["parts"]) == (str(tmp_path / "run"), str(parts))
