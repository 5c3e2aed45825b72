"""Bad inputs over the whole public API: what comes back must be a typed error or a valid result.

    python -m attack.bad_inputs --count 12000 --seed 0 --json report.json      (with PYTHONPATH=src:tests)
    python -m attack.bad_inputs --replay "nn.ARMAConv(num_stacks=@nan)"

A process that has imported everything and tried every valid call forks a child for each batch of inputs. The child
notes every input before it begins with it, so that a crash or a hang has a name; its memory and its time are limited.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import io
import json
import math
import os
import random
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attack.report import Finding, finish

LIMIT = 5.0
"""Seconds of processor time after which an input hangs."""
WALL = 90.0
"""Seconds on the clock: of an input that waits for something."""
MEMORY = 3 << 30
"""Bytes that a child may add to what it starts with."""
BATCH = 200


class Hang(BaseException):
    """An input took longer than the limit."""


@dataclass(frozen=True)
class Input:
    """A call, and the bad values in the place of some of its arguments."""

    call: int
    bad: tuple[tuple[str, str], ...]

    def text(self, calls: Sequence[Any]) -> str:
        name = calls[self.call].name
        alike = [index for index, call in enumerate(calls) if call.name == name]
        which = f"#{alike.index(self.call)}" if len(alike) > 1 else ""
        return f"{name}{which}({', '.join(f'{arg}={value}' for arg, value in self.bad)})"


def parse(text: str, calls: Sequence[Any]) -> Input:
    """The input that `Input.text` wrote."""
    found = re.fullmatch(r"([\w.]+)(?:#(\d+))?\((.*)\)", text)
    if found is None:
        raise SystemExit(f"not an input: {text}")
    alike = [index for index, call in enumerate(calls) if call.name == found[1]]
    pairs = [tuple(part.split("=", 1)) for part in found[3].split(", ") if part]
    return Input(alike[int(found[2] or 0)], tuple(pairs))  # type: ignore[arg-type]


def draw(calls: Sequence[Any], count: int, seed: int, pairs: float = 0.15) -> list[Input]:
    """Different inputs: an argument of the API with a bad value each, some with a second one."""
    from attack.pool import names_for

    source = random.Random(seed)
    places = [(index, name) for index, call in enumerate(calls) for name in call.args]
    values = {place: names_for(calls[place[0]].args[place[1]]) for place in places}
    drawn: dict[Input, None] = {}
    possible = sum(map(len, values.values()))
    while len(drawn) < min(count, possible):
        index, name = place = source.choice(places)
        bad = [(name, source.choice(values[place]))]
        others = [other for other in calls[index].args if other != name]
        if others and source.random() < pairs:
            other = source.choice(others)
            bad.append((other, source.choice(values[index, other])))
        drawn[Input(index, tuple(bad))] = None
    return list(drawn)


# ---------------------------------------------------------------------------------------------------------- one input


def attempt(calls: Sequence[Any], item: Input) -> Finding:
    """Give one input, and say what came back."""
    from armagnn.errors import ArmagnnError
    from attack.pool import UserError, Wrong, bad

    call, text = calls[item.call], item.text(calls)
    start = time.monotonic()
    try:
        args = call.args | {name: bad(value, call.args[name]) for name, value in item.bad}
    except Exception:
        return Finding(text, "no such value")
    finite = _finite(list(args.values())) and ("@nan_function" not in dict(item.bad).values())
    finding = Finding(text, "valid")
    try:
        result = call.run(**args)
        if finite and not _finite([result], infinite=True):
            finding.outcome = "nan"
    except ArmagnnError as error:
        finding.outcome = "typed"
        finding.message = _message(error)
    except UserError:
        finding.outcome = "the user's own"
    except Wrong as error:
        finding.outcome, finding.message = "wrong", _message(error)
    except Hang:
        finding.outcome, finding.place = "hang", "?"
    except BaseException as error:
        finding.outcome, finding.error = "raw", type(error).__name__
        chain, cause = error, error.__cause__ or error.__context__
        while cause is not None:
            if isinstance(cause, UserError):
                finding.outcome = "the user's own"
            if isinstance(cause, Hang):
                finding.outcome = "hang"
            chain, cause = cause, cause.__cause__ or cause.__context__
        finding.place, finding.message = _place(error), _message(error)
        del chain
    finding.seconds = time.monotonic() - start
    return finding


def _message(error: BaseException) -> str:
    try:
        return str(error)[:200]
    except BaseException as other:
        return f"(its message cannot be read: {type(other).__name__})"


def _place(error: BaseException) -> str:
    """The innermost line of armagnn that the error went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/armagnn/" in frame.filename]
    if not frames:
        return "outside armagnn"
    return f"{frames[-1].filename.rpartition('/armagnn/')[2]}:{frames[-1].name}"


def _finite(values: list[Any], infinite: bool = False, depth: int = 0) -> bool:
    """Are all numbers in these values finite? With `infinite`, only NaN is looked for."""
    import numpy as np
    import torch

    from armagnn import CSR

    for value in values:
        if isinstance(value, CSR):
            value = value.value
        try:
            if isinstance(value, torch.Tensor):
                if value.layout is not torch.strided:
                    value = value.coalesce().values() if value.layout is torch.sparse_coo else value.values()
                if value.is_meta or value.is_quantized or not (value.is_floating_point() or value.is_complex()):
                    continue
                if value.numel() > 2**24:
                    continue
                good = not bool(value.isnan().any()) if infinite else bool(value.isfinite().all())
            elif isinstance(value, float):
                good = not math.isnan(value) if infinite else math.isfinite(value)
            elif isinstance(value, np.ndarray) and value.dtype.kind in "fc" and value.size < 2**24:
                good = not bool(np.isnan(value).any()) if infinite else bool(np.isfinite(value).all())
            elif depth < 4 and isinstance(value, dict):
                good = _finite(list(value.values()), infinite, depth + 1)
            elif depth < 4 and isinstance(value, list | tuple) and len(value) < 1000:
                good = _finite(list(value), infinite, depth + 1)
            elif depth < 4 and type(value).__module__.startswith("armagnn") and hasattr(value, "__dict__"):
                good = _finite([v for k, v in vars(value).items() if not k.startswith("_")], infinite, depth + 1)
            elif depth == 0 and hasattr(value, "data") and type(value).__module__.startswith("scipy"):
                good = _finite([value.data], infinite, 1)
            else:
                continue
        except Exception:
            continue
        if not good:
            return False
    return True


# ------------------------------------------------------------------------------------------------------------ children


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _hang(*_: Any) -> None:
    raise Hang


def _child(calls: Sequence[Any], items: Sequence[Input], journal: int, limit: float) -> None:
    """Give the inputs one by one; note each before and after."""
    _limit_memory()
    faulthandler.disable()
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    signal.signal(signal.SIGPROF, _hang)
    signal.signal(signal.SIGALRM, _hang)
    warnings.simplefilter("ignore")
    for item in items:
        os.write(journal, b">\n")
        used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
        # a loop in C never looks at signals that Python handles: this one ends the process
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(used + limit) + 2, resource.RLIM_INFINITY))
        finding = Finding(item.text(calls), "hang")
        try:
            signal.setitimer(signal.ITIMER_PROF, limit)
            signal.setitimer(signal.ITIMER_REAL, WALL)
            finding = attempt(calls, item)
        except Hang:
            pass
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)
        os.write(journal, json.dumps(asdict(finding)).encode() + b"\n")


def run_batch(calls: Sequence[Any], items: Sequence[Input]) -> Iterator[Finding]:
    """Give the inputs in children; one that dies is noted, and the next child goes on behind it."""
    for finding in _in_children(calls, items):
        if finding.outcome == "hang":  # machine code may have been compiled: once more, now that it is in the cache
            item = parse(finding.input, calls)
            list(_in_children(calls, [item], 6 * LIMIT))
            (finding,) = _in_children(calls, [item])
        yield finding


def _in_children(calls: Sequence[Any], items: Sequence[Input], limit: float | None = None) -> Iterator[Finding]:
    left = list(items)
    while left:
        with tempfile.NamedTemporaryFile() as file:
            child = os.fork()
            if not child:
                try:
                    _child(calls, left, os.open(file.name, os.O_WRONLY | os.O_APPEND), limit or LIMIT)
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(7)
            status = _wait(child, Path(file.name))
            lines = Path(file.name).read_text().splitlines()
        findings = [Finding(**json.loads(line)) for line in lines if line != ">"]
        yield from findings
        if status == 0:
            return
        place = len(findings)
        code = os.waitstatus_to_exitcode(status)
        hung = code in (-signal.SIGXCPU, -signal.SIGKILL)
        yield Finding(left[place].text(calls), "hang" if hung else "crash", place="?", message=f"exit status {code}")
        left = left[place + 1 :]


def _wait(child: int, journal: Path) -> int:
    """Wait for a child; kill one that has noted nothing for long."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return status
        if time.time() - journal.stat().st_mtime > 3 * WALL:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """A folder for all files, the data folder and the caches."""
    back = Path.cwd()
    names = ("ARMAGNN_DATA", "ARMAGNN_CACHE", "XDG_DATA_HOME", "MPLBACKEND")
    before = {name: os.environ.get(name) for name in names}
    with tempfile.TemporaryDirectory(prefix="armagnn-attack-") as folder:
        os.chdir(folder)
        for name in names[:3]:
            Path(folder, name).mkdir()
            os.environ[name] = str(Path(folder, name))
        os.environ["MPLBACKEND"] = "agg"
        try:
            yield
        finally:
            os.chdir(back)
            for name, value in before.items():
                os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def all_calls(rooms: Sequence[str]) -> list[Any]:
    """The calls of the rooms; each is tried with its valid arguments first, so that machine code is compiled."""
    from armagnn.errors import ArmagnnError
    from attack.rooms import ROOMS

    calls = []
    for room in rooms:
        for call in ROOMS[room]():
            calls.append(call)
            if room == "distributed":  # a group of ranks does not survive a fork: each child makes its own
                continue
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                try:
                    call.run(**call.args)
                except ArmagnnError as error:
                    if call.name not in REFUSED:
                        raise AssertionError(f"{call.name}: its valid arguments are refused") from error
                except Exception as error:
                    raise AssertionError(f"{call.name}: its valid arguments fail") from error
    return calls


REFUSED = frozenset(["data.load_signals", "data.fetch", "data.make_news", "data.with_bond_orders"])
"""Calls that need what is not here: a network, originals."""


# -------------------------------------------------------------------------------------------------------------- report


def main() -> int:
    from attack.rooms import PUBLIC, ROOMS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=12000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rooms", nargs="*", default=list(PUBLIC), choices=list(ROOMS))
    parser.add_argument("--replay", help="one input, as it stands in a report")
    parser.add_argument("--json", type=Path, help="where to write what was raw, hung, crashed or gave NaN")
    options = parser.parse_args()
    json_path = options.json and options.json.resolve()
    rooms = [options.replay.partition(".")[0]] if options.replay else options.rooms
    with workplace():
        calls = all_calls(rooms)
        if options.replay:
            return replay(calls, parse(options.replay, calls))
        findings = run_all(calls, draw(calls, options.count, options.seed))
    return finish(findings, rooms, json_path, options.seed)


def run_all(calls: Sequence[Any], items: Sequence[Input]) -> list[Finding]:
    """Give all inputs, batch by batch."""
    findings: list[Finding] = []
    for first in range(0, len(items), BATCH):
        findings += run_batch(calls, items[first : first + BATCH])
        if sys.stderr.isatty():
            print(f"\r{len(findings)}", end="", file=sys.stderr)
    return findings


def replay(calls: Sequence[Any], item: Input) -> int:
    """Give one input in this process, with the whole traceback."""
    from attack.pool import bad

    call = calls[item.call]
    _limit_memory()
    args = call.args | {name: bad(value, call.args[name]) for name, value in item.bad}
    print(call.run(**args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
