"""The run folder: what is in it, and that no damage passes unseen."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armagnn.data import load
from armagnn.errors import RunError
from armagnn.training import NodesConfig, Outcome, Run, Setting, predict, train
from armagnn.training.checkpoint import Manifest, to_bytes

RATES = {"input_dropout": 0.3, "hidden_dropout": 0.3, "skip_dropout": 0.3}
CONFIG = NodesConfig(hidden=1, stacks=1, epochs=4, seed=3, seeds=3, **RATES)
FILES = [
    "config.json",
    "curve.png",
    "manifest.json",
    "metrics.json",
    *(f"trials/seed-{seed}.{kind}" for seed in (3, 4, 5) for kind in ("json", "safetensors")),
    "weights.safetensors",
]


def test_the_files(finished: Path) -> None:
    names = sorted(str(path.relative_to(finished)) for path in finished.rglob("*") if path.is_file())
    assert names == FILES
    assert (finished / "curve.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_the_configuration_says_all(finished: Path) -> None:
    content = json.loads((finished / "config.json").read_text())
    assert content["config"] == CONFIG.to_json()
    assert content["seeds"] == [3, 4, 5]
    assert content["dataset_sha256"] == load("cora").sha256
    assert content["versions"]["torch"] == torch.__version__
    assert content["version"] == 2


def test_metrics_follow_from_the_trials(finished: Path) -> None:
    run = Run.open(finished)
    metrics, trials = run.metrics(), run.trials()
    assert [row["seed"] for row in metrics["trials"]] == [trial.seed for trial in trials] == [3, 4, 5]
    tests = [trial.test["accuracy"] for trial in trials]
    mean = sum(tests) / 3
    assert metrics["test"]["accuracy"]["mean"] == pytest.approx(mean)
    assert metrics["test"]["accuracy"]["std"] == pytest.approx((sum((t - mean) ** 2 for t in tests) / 2) ** 0.5)
    assert metrics["val"]["loss"]["mean"] == pytest.approx(sum(trial.val["loss"] for trial in trials) / 3)
    best = min(trials, key=lambda trial: trial.val["loss"])
    assert metrics["best_seed"] == best.seed
    weights = run.weights()
    assert all(torch.equal(weights[name], best.state[name]) for name in best.state)
    assert (finished / "weights.safetensors").read_bytes() == (
        finished / f"trials/seed-{best.seed}.safetensors"
    ).read_bytes()


def test_predictions_are_those_of_the_best_trial(finished: Path) -> None:
    run = Run.open(finished)
    prediction = predict(run)
    data, labels = prediction.dataset, prediction.probabilities.argmax(dim=1)
    metrics = run.metrics()
    best = next(row for row in metrics["trials"] if row["seed"] == metrics["best_seed"])
    assert float((labels == data.y)[data.test_idx].double().mean()) == pytest.approx(best["test"]["accuracy"])
    torch.testing.assert_close(prediction.probabilities.sum(dim=1), torch.ones(2708))


def test_a_loss_that_is_no_number_is_kept_as_null(tmp_path: Path) -> None:
    run = Run.create(tmp_path, NodesConfig(seeds=1), "0" * 64)
    values = {"loss": 0.5, "accuracy": 0.9}
    history = {"train_loss": [1.0, math.inf], "val_loss": [0.5, math.nan], "val_accuracy": [0.9, 0.1]}
    run.keep(Outcome(Setting(0, 0.1, 0.0), 1, 2, values, values, 1.0, history, {"weight": torch.ones(2)}))
    assert json.loads((tmp_path / "trials/seed-0.json").read_text())["history"]["val_loss"] == [0.5, None]
    loaded = run.load_trial(0).history
    assert loaded["val_accuracy"] == [0.9, 0.1]
    assert loaded["val_loss"][0] == 0.5
    assert math.isnan(loaded["val_loss"][1])
    assert math.isnan(loaded["train_loss"][1])


# ------------------------------------------------------------------------------------------------------------ damage


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_no_flipped_byte_passes(finished: Path, name: str, place: float, flip: int) -> None:
    file = finished / name
    content = file.read_bytes()
    damaged = bytearray(content)
    damaged[int(place * len(content))] ^= flip
    file.write_bytes(damaged)
    try:
        with pytest.raises(RunError):
            Run.open(finished)
    finally:
        file.write_bytes(content)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), place=st.floats(0, 1, exclude_max=True))
def test_no_truncation_passes(finished: Path, name: str, place: float) -> None:
    file = finished / name
    content = file.read_bytes()
    file.write_bytes(content[: int(place * len(content))])
    try:
        with pytest.raises(RunError):
            Run.open(finished)
    finally:
        file.write_bytes(content)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(RunError, match=name.replace(".", r"\.")):
        Run.open(copy)


def test_whitespace_in_the_manifest_is_damage_too(copy: Path) -> None:
    manifest = copy / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(RunError, match="checksum"):
        Run.open(copy)


def resign(run: Path, change: Callable[[Manifest], object]) -> None:
    """Change the manifest and give it a right checksum: what an accident cannot do, but another program can."""
    manifest = Manifest.read(run)
    change(manifest)
    manifest.write(run)


def test_files_outside_the_folder_are_never_read(copy: Path) -> None:
    secret = copy.parent / "secret"
    secret.write_bytes(b"secret")
    resign(copy, lambda m: m.files.update({"../secret": hashlib.sha256(b"secret").hexdigest()}))
    with pytest.raises(RunError, match=r"names a file that no run has: '\.\./secret'"):
        Run.open(copy)


def test_a_complete_run_has_all_its_files(copy: Path) -> None:
    resign(copy, lambda m: m.files.pop("metrics.json"))
    with pytest.raises(RunError, match=r"metrics\.json"):
        Run.open(copy)


def test_a_trial_has_its_weights(copy: Path) -> None:
    resign(copy, lambda m: m.files.pop("trials/seed-4.safetensors"))
    with pytest.raises(RunError, match=r"seed-4\.safetensors"):
        Run.open(copy)


def replace_file(run: Path, name: str, content: bytes) -> None:
    (run / name).write_bytes(content)
    resign(run, lambda m: m.files.update({name: hashlib.sha256(content).hexdigest()}))


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"nonsense", b'{"config": {}}', b"[" * 100_000])
def test_a_signed_configuration_must_still_be_one(copy: Path, content: bytes) -> None:
    replace_file(copy, "config.json", content)
    with pytest.raises(RunError):
        Run.open(copy)


@pytest.mark.parametrize("content", [b"", b"\x80\x04N.", b"\xff" * 100, b"[]"])
def test_signed_weights_must_still_be_weights(copy: Path, content: bytes) -> None:
    replace_file(copy, "weights.safetensors", content)
    with pytest.raises(RunError, match="safetensors"):
        Run.open(copy).weights()


def test_weights_of_another_network_do_not_fit(copy: Path, tmp_path: Path) -> None:
    wider = tmp_path / "wider"
    train(NodesConfig(hidden=2, stacks=1, epochs=1, seeds=1), wider)
    replace_file(copy, "weights.safetensors", (wider / "weights.safetensors").read_bytes())
    with pytest.raises(RunError, match="do not fit"):
        predict(Run.open(copy))


def test_a_signed_trial_must_still_be_one(copy: Path) -> None:
    replace_file(copy, "trials/seed-3.json", b'{"seed": 3}')
    with pytest.raises(RunError, match="not the results of a trial"):
        Run.open(copy).trials()


def test_another_version_is_refused(copy: Path) -> None:
    content = json.loads((copy / "manifest.json").read_text())
    content["version"] = 3
    (copy / "manifest.json").write_bytes(to_bytes(content))
    with pytest.raises(RunError, match="format version 3"):
        Run.open(copy)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no readable manifest"),
        (b"", "not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b'{"format": NaN}', "not JSON"),
        (b'{"format": "other"}', "not the manifest of an armagnn run"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_foreign_folders(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(RunError, match=message):
        Run.open(tmp_path)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=anything, complete=anything, digest=anything)
def test_any_json_for_a_manifest_is_refused(tmp_path: Path, files: object, complete: object, digest: object) -> None:
    content = {"format": "armagnn-run", "version": 2, "files": files, "complete": complete, "sha256": digest}
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(RunError):
        Run.open(tmp_path)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not a run of armagnn"):
        Run.open(tmp_path / "nothing")


def test_the_data_must_be_those_of_the_run(copy: Path) -> None:
    content = json.loads((copy / "config.json").read_text())
    content["dataset_sha256"] = "0" * 64
    replace_file(copy, "config.json", to_bytes(content))
    with pytest.raises(RunError, match="another file of dataset 'cora'"):
        predict(Run.open(copy))
    with pytest.raises(RunError, match="another file of dataset 'cora'"):
        train(CONFIG, copy, resume=True)
