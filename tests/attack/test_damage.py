"""A small part of the runs of `attack.damage` and `attack.kills`, and that both see what they are there to see."""

from __future__ import annotations

from pathlib import Path

import pytest

from attack.bad_inputs import run_batch, workplace
from attack.damage import calls, damage, draw
from attack.kills import Tally, attack, configurations, kill_until_done, truths
from attack.report import ODD
from attack.subjects import Call


def test_what_is_read_back_is_true_or_refused() -> None:
    with workplace():
        found = list(calls(tables=False))
        findings = list(run_batch(found, draw(found, 90, seed=1)))
    assert len(findings) == 90
    assert [finding for finding in findings if finding.outcome in ODD] == []
    assert sum(finding.outcome == "typed" for finding in findings) > 45


def test_a_reader_that_believes_everything_is_found(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("the truth")

    def believe(seed: int) -> None:
        from attack.pool import Wrong

        damage(tmp_path, seed)
        if (tmp_path / "file").read_text() != "the truth":
            raise Wrong("another text")

    call = [Call("damage.believer", believe, {"seed": 0})]
    found = {finding.outcome for finding in run_batch(call, draw(call, 3, seed=0))}
    assert found <= {"wrong", "raw"}
    assert "wrong" in found


def test_damage_is_a_function_of_the_seed(tmp_path: Path) -> None:
    seen = []
    for seed in (3, 3, 4):
        (tmp_path / "a").write_bytes(bytes(range(200)))
        (tmp_path / "b").write_text("1 2 3\n4 5 6\n")
        what = damage(tmp_path, seed)
        seen.append((what, sorted((path.name, path.is_file() and path.read_bytes()) for path in tmp_path.iterdir())))
        for path in list(tmp_path.iterdir()):
            path.rmdir() if path.is_dir() else path.unlink()
    assert seen[0] == seen[1] != seen[2]


def test_killed_trainings_end_with_the_same_bits() -> None:
    with workplace():
        tallies = [attack(3, seed=2)]
        while sum(tally.kills for tally in tallies) < 2 and len(tallies) < 5:  # a machine may become faster meanwhile
            tallies.append(attack(3, seed=2 + len(tallies)))
    assert all(tally.runs == 3 for tally in tallies)
    assert sum(tally.kills for tally in tallies) >= 2
    assert sum(tally.bad for tally in tallies) == 0, str(tallies)


def test_another_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from random import Random

    with workplace():
        (config, _, seconds), tally = truths(configurations()[:1])[0], Tally()
        kill_until_done(config, "another result", seconds, Random(0), tally)
    assert (tally.runs, tally.different, tally.lost) == (1, 1, 0)
