"""Run folders that somebody made up: signed like real ones, but for what they hold."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from armagnn.cli.finished_runs import show
from armagnn.errors import ArmagnnError, RunError
from armagnn.files import sha256_of
from armagnn.training import Observer, Run, predict, train
from armagnn.training.checkpoint import Manifest, to_bytes
from training.hostile import finished, no_hang, put, sign, tiny, variants

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="alarms, pipes and links are those of POSIX")
KINDS = ("nodes", "graphs")
HARMLESS = {  # what is there instead is as good, and nothing else says otherwise
    "versions.armagnn missing", "versions.numpy missing", "versions.python missing", "versions.torch missing",
    "versions object", "kind missing", "weighted missing", "weighted true", "seconds 10^30",
    "history.train_loss.0 null", "history.val_loss.0 null", "history.val_accuracy.0 null",
    "classes.0 missing", "classes.0 -1", "vocabulary.0 -1",
    "targets list", "target_mean list", "target_deviation list",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("quick_curves")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: finished(kind, tmp_path_factory.mktemp(kind)) for kind in KINDS}


@pytest.fixture
def copy(runs: dict[str, Path], tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    kind = getattr(request, "param", "nodes")
    return Path(shutil.copytree(runs[kind], tmp_path / "run"))


def on_both(function: Any) -> Any:
    return pytest.mark.parametrize("copy", KINDS, indirect=True)(function)


def ask(path: Path) -> None:
    """Predict, whatever the run is on."""
    run = Run.open(path)
    predict(run).to_csv()


def resume(path: Path) -> None:
    train(Run.open(path).config, path, resume=True)


def answer(question: Callable[[Path], None], path: Path) -> ArmagnnError | None:
    """The typed error that a question about a run ends with; anything else that is raised comes through."""
    try:
        with no_hang():
            question(path)
    except ArmagnnError as error:
        return error
    return None


@on_both
def test_an_honest_run_is_shown_predicts_and_is_left_alone(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for question in (show, ask, resume):
        assert answer(question, copy) is None
    assert "2 of 2 trials" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------------- one entry


@pytest.mark.parametrize("name", ["config.json", "graphs.json", "trials/seed-0.json", "metrics.json"])
@on_both
def test_every_entry_is_checked(copy: Path, name: str) -> None:
    if not (copy / name).exists():
        pytest.skip("a run on nodes describes no graphs")
    content = (copy / name).read_bytes()
    tried = 0
    for what, changed in islice(variants(content), 0, None, 1 if name == "config.json" else 5):
        put(copy, name, changed)
        error = answer(show, copy)
        if (error is None) != (what in HARMLESS):
            print("ODD", what, error, file=__import__("sys").__stderr__)
        assert error is None or (type(error) is RunError and len(str(error)) < 1000), what
        if name in ("config.json", "graphs.json"):
            answer(ask, copy)
        answer(resume, copy)
        tried += 1
    assert tried >= 30
    put(copy, name, content)
    assert answer(show, copy) is None


@pytest.mark.parametrize("seeds", [10**9, 10**30])
@on_both
def test_a_billion_seeds_are_refused_at_once(copy: Path, seeds: int) -> None:
    content = json.loads((copy / "config.json").read_bytes())
    content["config"]["seeds"] = seeds
    put(copy, "config.json", to_bytes(content))
    for question in (show, ask, resume):
        assert "seeds" in str(answer(question, copy))


@pytest.mark.parametrize(
    "changes",
    [{"hidden": 10**12}, {"hidden": 2**16}, {"hidden": 2**16, "stacks": 1000}, {"layers": 10**9}, {"stacks": 10**9}],
    ids=str,
)
@on_both
def test_a_network_that_the_weights_are_not_of_takes_no_memory(copy: Path, changes: dict[str, int]) -> None:
    content = json.loads((copy / "config.json").read_bytes())
    content["config"] |= changes
    put(copy, "config.json", to_bytes(content))
    assert type(answer(ask, copy)) is RunError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("conv", ["arma", "gcn", "gat"])
def test_a_training_that_no_memory_is_large_enough_for_is_refused(tmp_path: Path, kind: str, conv: str) -> None:
    config = tiny(kind, tmp_path)
    values = {**config.to_json(), "conv": conv, "hidden": 2**16, "layers": 100, "stacks": 1000, "seeds": 4096}
    with no_hang(), pytest.raises(ArmagnnError, match=r"memory|smaller|entries"):
        train(type(config)(**{**values, "depth": 10} if kind == "graphs" else values), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# -------------------------------------------------------------------------------------------------------- one file

CONTENTS = {
    "nothing": b"", "a list": b"[]", "an empty object": b"{}", "no text": b"\xff\xfe\x00", "deep": b"[" * 10**5,
    "deep objects": b'{"a":' * 450 + b"1" + b"}" * 450, "a pickle": b"\x80\x04N.", "zeros": b"\0" * 100,
    "a number": b"1e999", "many digits": b'{"a": ' + b"9" * 5000 + b"}",
}  # fmt: skip


@on_both
def test_every_file_must_still_be_one(copy: Path) -> None:
    for name, content in {name: (copy / name).read_bytes() for name in Manifest.read(copy).files}.items():
        for what, changed in {**CONTENTS, "half": content[: len(content) // 2]}.items():
            put(copy, name, changed)
            refused = [answer(question, copy) for question in (show, ask)]
            assert name == "curve.png" or any(refused), (name, what)
            answer(resume, copy)
            sign(copy, name, content)  # a checksum of something else
            assert answer(show, copy), (name, what)
        put(copy, name, content)


@on_both
def test_swapped_files(copy: Path) -> None:
    files = {name: (copy / name).read_bytes() for name in Manifest.read(copy).files}
    for one in files:
        for other in files:
            if one < other and "curve.png" not in (one, other):
                put(copy, one, files[other])
                put(copy, other, files[one])
                wrong = [answer(question, copy) for question in (show, ask)]
                # the weights of one seed fit the network of another
                assert any(wrong) or one.rpartition(".")[2] == other.rpartition(".")[2] == "safetensors", (one, other)
                put(copy, one, files[one])
                put(copy, other, files[other])


def stand_in(path: Path, what: str) -> None:
    """Put something in the place of a file."""
    path.unlink()
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "loop":
        path.symlink_to(path)
    elif what == "terabyte":
        with open(path, "wb") as file:
            file.truncate(2**40)


@pytest.mark.parametrize("what", ["missing", "pipe", "folder", "device", "loop", "terabyte"])
@on_both
def test_what_is_no_file_is_not_read(copy: Path, what: str) -> None:
    for name in ["manifest.json", *Manifest.read(copy).files]:
        content = (copy / name).read_bytes()
        stand_in(copy / name, what)
        for question in (show, ask, resume):
            assert type(answer(question, copy)) is RunError, name
        shutil.rmtree(copy / name) if what == "folder" else (copy / name).unlink(missing_ok=True)
        (copy / name).write_bytes(content)


def test_a_link_to_a_file_is_that_file(copy: Path, tmp_path: Path) -> None:
    """Large files may lie elsewhere, as git-annex and DVC have them: their checksum is that of the manifest."""
    for name in Manifest.read(copy).files:
        (copy / name).rename(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").rename(tmp_path / name.replace("/", "-"))
        (copy / name).symlink_to(tmp_path / name.replace("/", "-"))
    for question in (show, ask, resume):
        assert answer(question, copy) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@on_both
def test_weights_that_are_no_numbers_predict_nothing(copy: Path, value: float) -> None:
    weights = safetensors.torch.load_file(copy / "weights.safetensors")
    next(iter(weights.values())).view(-1)[0] = value
    put(copy, "weights.safetensors", safetensors.torch.save(weights))
    assert "no finite real numbers" in str(answer(ask, copy))


@pytest.mark.parametrize("change", ["integers", "double", "one more", "one less", "other shapes"])
@on_both
def test_other_weights_predict_nothing(copy: Path, change: str) -> None:
    weights = safetensors.torch.load_file(copy / "weights.safetensors")
    name = next(iter(weights))
    if change == "one less":
        del weights[name]
    else:
        weights["x" * 10**4 if change == "one more" else name] = {
            "integers": weights[name].long(), "double": weights[name].double(), "one more": torch.ones(1),
            "other shapes": torch.ones(2, 3, 4, 5, 6),
        }[change]  # fmt: skip
    put(copy, "weights.safetensors", safetensors.torch.save(weights))
    error = answer(ask, copy)
    assert type(error) is RunError
    assert len(str(error)) < 1000


# ------------------------------------------------------------------------------------------------------ checkpoint


class Interrupt(Observer):
    def epochs(self, epoch: int, running: int, val_loss: float, val_accuracy: float) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_a_checkpoint_is_checked(tmp_path: Path, kind: str) -> None:
    config = tiny(kind, tmp_path)
    config = type(config)(**{**config.to_json(), "epochs": 10, "patience": 20})
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "begun", observer=Interrupt())
    content = json.loads((tmp_path / "begun" / "checkpoint" / "checkpoint.json").read_bytes())
    del content["sha256"]
    tried = 0
    for what, changed in islice(variants(json.dumps(content).encode(), items=2), 0, None, 11):
        try:
            body = json.loads(changed)
            signed = to_bytes({**body, "sha256": sha256_of(to_bytes(body))})
        except (ValueError, RecursionError):  # no canonical JSON: so it cannot be signed
            signed = changed
        path = tmp_path / "copy"
        shutil.copytree(tmp_path / "begun", path)
        (path / "checkpoint" / "checkpoint.json").write_bytes(signed)
        error = answer(resume, path)
        assert error is None or (type(error) is RunError and len(str(error)) < 1000), what
        shutil.rmtree(path)
        tried += 1
    assert tried >= 20


def test_nothing_is_written_through_a_link_in_the_folder(tmp_path: Path) -> None:
    config = tiny("nodes", tmp_path)
    config = type(config)(**{**config.to_json(), "epochs": 10})
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", observer=Interrupt())
    secret = tmp_path / "secret"
    secret.write_text("mine")
    for name in ("manifest.json", "metrics.json", "weights.safetensors", "trials/seed-0.json"):
        draft = tmp_path / "run" / Path(name).parent / f".{Path(name).name}.tmp"
        draft.parent.mkdir(exist_ok=True)
        draft.symlink_to(secret)
    assert train(config, tmp_path / "run", resume=True).complete
    assert secret.read_text() == "mine"
