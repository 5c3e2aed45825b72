"""Trainings over ranks are those of one process, and the command goes on after whatever ended it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from armagnn.data import load
from armagnn.distributed import part_training, partition_dataset
from armagnn.distributed.part_training import train_parts
from armagnn.errors import ArmagnnError, DataError, ParameterError, RunError
from armagnn.training import NodesConfig, Observer, Run, predict, train
from armagnn.training.parts_config import PartsConfig
from launching import torchrun
from sixty_nodes import sixty_nodes

pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="this build of torch has no gloo")

CHECKS = ("operators", "trainings", "bytes", "errors are heard", "meshes")
QUICK: dict[str, Any] = {"epochs": 12, "seeds": 2, "hidden": 8, "lr": 0.05}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_ranks_equal_one_process(ranks: int) -> None:
    output = torchrun(ranks, Path(__file__).parent / "training_ranks.py")
    for rank in range(ranks):
        for check in CHECKS:
            assert f"rank {rank} of {ranks}: {check} hold" in output


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parts") / "cora"
    partition_dataset(load("cora"), folder, 4)
    return folder


def command(ranks: int, *words: str, program: tuple[str, ...] = ("-m", "armagnn")) -> subprocess.Popen[str]:
    start = [sys.executable]
    if ranks > 1:
        start += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.Popen(
        [*start, *program, *words], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str], code: int = 0, limit: float = 200) -> str:
    try:
        output, _ = process.communicate(timeout=limit)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code, output
    return output


OPTIONS = [word for name, value in QUICK.items() for word in (f"--{name}", str(value))]


def test_the_command_gives_the_metrics_of_one_process(parts: Path, tmp_path: Path) -> None:
    """Parts in the order of the data: the weights, masks and metrics of `armagnn train --dataset cora`."""
    one = train(NodesConfig(**QUICK, stacks=2), tmp_path / "one")
    typed = [*OPTIONS, "--stacks", "2", "--dropout", "0.75", "--skip-dropout", "0.75", "--l2", "5e-4", "--act", "relu"]
    words = ["train", "nodes", "--parts", str(parts), *typed, "--out", str(tmp_path / "many")]
    output = finish(command(3, *words))
    assert output.count("Run folder") == 1  # one rank speaks
    many = Run.open(tmp_path / "many")
    for ours, theirs in zip(many.trials(), one.trials(), strict=True):
        assert ours.best_epoch == theirs.best_epoch
        assert ours.val["loss"] == pytest.approx(theirs.val["loss"], rel=1e-5)
        assert ours.test["accuracy"] == pytest.approx(theirs.test["accuracy"], abs=2e-3)
        for name, weight in theirs.state.items():
            torch.testing.assert_close(ours.state[name], weight, rtol=1e-3, atol=1e-4)
    finish(command(2, "predict", str(tmp_path / "many"), "--out", str(tmp_path / "two.csv")))
    finish(command(1, "predict", str(tmp_path / "many"), "--out", str(tmp_path / "one.csv")))
    rows = [(tmp_path / f"{name}.csv").read_text().splitlines() for name in ("one", "two")]
    expected = predict(one).to_csv().splitlines()
    assert rows[0][0] == rows[1][0] == expected[0]
    assert len(rows[0]) == len(rows[1]) == len(expected) == 2709
    for a, b, c in list(zip(*rows, expected, strict=True))[1::200]:
        assert a.split(",")[:2] == b.split(",")[:2] == c.split(",")[:2]
        assert float(a.split(",")[3]) == pytest.approx(float(b.split(",")[3]), abs=1e-5)
        assert float(a.split(",")[3]) == pytest.approx(float(c.split(",")[3]), abs=1e-3)


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_a_training_goes_on_with_fewer_ranks(parts: Path, tmp_path: Path, how: str) -> None:
    """Of four ranks one is killed, or Ctrl-C comes; all end in seconds, and the same command ends on two ranks."""
    words = [
        "train", "nodes", "--parts", str(parts), "--epochs", "5000", "--patience", "5000", "--seeds", "1", "--hidden",
        "4", "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    process = command(4, *words)
    until = time.monotonic() + 120
    while not (tmp_path / "run" / "manifest.json").exists():
        assert time.monotonic() < until, finish(process)
        time.sleep(0.2)
    time.sleep(3)
    began = time.monotonic()
    if how == "killed":
        found = subprocess.run(["pgrep", "-f", str(tmp_path / "run")], capture_output=True, text=True, check=True)
        workers = [int(pid) for pid in found.stdout.split() if int(pid) != process.pid]
        os.kill(workers[-1], signal.SIGKILL)
        output = finish(process, code=1)
        assert "another rank ended" in output or "Signal 9" in output
    else:
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=100)
        assert output.count("Interrupted; what was done is kept") == 1
        assert (tmp_path / "run" / "checkpoint").is_dir()
    assert time.monotonic() - began < 30
    content = json.loads((tmp_path / "run" / "config.json").read_text())
    assert content["config"]["epochs"] == 5000
    other = replace(Run.open(tmp_path / "run").config, lr=0.5)
    with pytest.raises(RunError, match=r"other options \(lr: 0.01 -> 0.5\)"):
        train_parts(other, tmp_path / "run")


def test_a_checkpoint_of_four_ranks_goes_on_on_two_and_one(parts: Path, tmp_path: Path) -> None:
    """Interrupted and continued on other numbers of ranks, a training ends as one that was not interrupted."""
    script = tmp_path / "half.py"
    script.write_text(
        "import sys\n"
        "from armagnn.distributed import part_training\n"
        "from armagnn.training import Observer\n"
        "from armagnn.training.parts_config import PartsConfig\n"
        "class Stop(Observer):\n"
        "    def epochs(self, epoch, running, val_loss, val_accuracy):\n"
        "        if epoch >= int(sys.argv[3]):\n"
        "            raise KeyboardInterrupt\n"
        "config = PartsConfig(parts=sys.argv[1], epochs=30, seeds=1, hidden=8)\n"
        "try:\n"
        "    part_training.train_parts(config, sys.argv[2], observer=Stop())\n"
        "except KeyboardInterrupt:\n"
        "    print('stopped')\n"
    )
    config = PartsConfig(parts=str(parts), epochs=30, seeds=1, hidden=8)
    whole = train_parts(config, tmp_path / "whole")
    assert whole is not None
    for ranks, epoch in ((4, 10), (2, 20)):
        output = torchrun(ranks, script, str(parts), str(tmp_path / "run"), str(epoch))
        assert output.count("stopped") == ranks
    seen: list[int] = []

    class Watch(Observer):
        def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
            seen.append(epoch)

    run = train_parts(config, tmp_path / "run", observer=Watch())
    assert run is not None
    assert min(seen) > 20
    (ours,), (theirs,) = run.trials(), whole.trials()
    assert ours.history["val_loss"] == pytest.approx(theirs.history["val_loss"], rel=1e-4)
    assert not (tmp_path / "run" / "checkpoint").exists()


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty nodes in two parts."""
    folder = tmp_path_factory.mktemp("few") / "parts"
    partition_dataset(sixty_nodes(), folder, 2)
    return folder


@pytest.fixture(scope="module")
def undisturbed(few: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    finish(command(2, "train", "nodes", "--parts", str(few), *SHORT, "--out", str(folder)))
    return Run.open(folder)


SHORT = ["--epochs", "20", "--patience", "20", "--seeds", "2", "--hidden", "4"]


@pytest.mark.parametrize("killed", [0, 1])
def test_after_a_kill_the_same_command_ends_as_if_there_was_none(
    few: Path, undisturbed: Run, tmp_path: Path, killed: int
) -> None:
    """The first rank, which keeps the run, or the other one dies by SIGKILL in the second of two trials."""
    trap, log, folder = tmp_path / "trap", tmp_path / "log", tmp_path / "run"
    trap.touch()
    script = (str(Path(__file__).parent / "killed_rank.py"), str(trap), str(killed), str(log))
    words = ["train", "nodes", "--parts", str(few), *SHORT, "--out", str(folder)]
    output = finish(command(2, *words, program=script), code=1)
    ended = time.time()
    assert "Signal 9 (SIGKILL)" in output
    assert ended - float((tmp_path / "sprung").read_text()) < 25
    assert (folder / "checkpoint" / "checkpoint.json").exists()
    assert not Run.open(folder).complete
    before = len(log.read_text().splitlines())

    output = finish(command(2, *words, program=script))
    assert output.count("Run folder") == 1
    saved = [line.split() for line in log.read_text().splitlines()[before:]]
    assert {seed for seed, _ in saved} == {"1"}  # the first trial was kept
    assert int(saved[0][1]) in (10, 15)  # the second one went on from its checkpoint
    assert not (folder / "checkpoint").exists()
    run = Run.open(folder)
    assert run.metrics() == undisturbed.metrics()
    for ours, theirs in zip(run.trials(), undisturbed.trials(), strict=True):
        assert ours.history == theirs.history
        for name, weight in theirs.state.items():
            assert torch.equal(ours.state[name], weight)


def test_what_is_refused(parts: Path, tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], type[ArmagnnError], str]] = [
        ({"conv": "gat"}, ParameterError, "whole graph"),
        ({"norm": "batch"}, ParameterError, "take 'layer'"),
        ({"dataset": "cora"}, ParameterError, "exclude each other"),
        ({"features": "rows"}, ParameterError, "armagnn partition --features"),
        ({"folds": 5}, ParameterError, "belongs to tables"),
        ({"parts": ""}, DataError, "cannot be read|holds no partition"),
        ({"stop_on": "roc_auc"}, ParameterError, "not judged by it"),
    ]
    for change, error, message in refused:
        with pytest.raises(error, match=message):
            train_parts(PartsConfig(**{"parts": str(parts), "epochs": 2, "seeds": 1} | change), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ParameterError, match="exclude each other"):
        train_parts(None, tmp_path / "run", resume=True, overwrite=True)
    with pytest.raises(RunError, match="not a run"):
        train_parts(None, tmp_path / "run", resume=True)
    train(NodesConfig(**QUICK | {"epochs": 1, "seeds": 1}), tmp_path / "plain")
    with pytest.raises(RunError, match="already holds a run"):
        train_parts(PartsConfig(parts=str(parts), seeds=1), tmp_path / "plain")


def test_the_error_of_a_rank_is_the_only_one_that_is_shown(parts: Path, tmp_path: Path) -> None:
    words = ["train", "nodes", "--parts", str(parts), "--conv", "gat", "--out", str(tmp_path / "run")]
    began = time.monotonic()
    output = finish(command(2, *words), code=1)
    assert "needs the whole graph on every rank" in output
    assert "Connection closed by peer" not in output
    assert time.monotonic() - began < 90


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_run_goes_on_on_its_own_device(
    few: Path, tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --resume alone, the group of the ranks is made for the device of the run."""
    Run.create(tmp_path / "run", PartsConfig(parts=str(few), seeds=1, device=device), "0" * 64)
    found = []

    def ranks(device: str) -> Any:
        found.append(device)
        raise InterruptedError

    monkeypatch.setattr(part_training, "ranks", ranks)
    with pytest.raises(InterruptedError):
        train_parts(None, tmp_path / "run", resume=True)
    with pytest.raises(InterruptedError):
        train_parts(None, tmp_path / "absent", resume=True)
    assert found == [device, "cpu"]
