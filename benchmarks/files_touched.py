"""Count the files of the package that a training passes through: ``python benchmarks/files_touched.py``.

``armagnn train --dataset cora`` runs in this process, with one seed and a few epochs, in a folder that is removed. A
file counts if one of its functions is called while the command runs. Bodies of modules and classes, and what they call
while a module is imported, do not count; ``--imported`` lists the files that are imported as well. The script uses the
command line only, so it measures other versions, too:
``PYTHONPATH=OTHER/src python benchmarks/files_touched.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import Any


class Watch:
    """Notes the files below a folder whose functions are called while it is entered, in every thread."""

    def __init__(self, root: Path) -> None:
        self.prefix = f"{root}/"
        self.called: set[str] = set()
        self.imports = 0  # how many modules of the folder are being imported

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take note of a call; the interpreter calls this at every event."""
        code = frame.f_code
        if not code.co_filename.startswith(self.prefix):
            return
        if code.co_name == "<module>":
            self.imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and self.imports == 0 and code.co_flags & inspect.CO_OPTIMIZED:  # not the body of a class
            self.called.add(code.co_filename)

    def __enter__(self) -> Watch:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]  # as the documentation has it


def train(dataset: str, epochs: int) -> tuple[Path, set[str]]:
    """Run the command; return the folder of the package and the files below it whose functions were called."""
    import armagnn

    root = Path(armagnn.__file__).parent
    with tempfile.TemporaryDirectory() as folder, Watch(root) as watch:
        from armagnn.cli import main

        given, sys.argv = sys.argv, ["armagnn", "train", "--dataset", dataset, "--seeds", "1"]
        sys.argv += ["--epochs", str(epochs), "--out", str(Path(folder, "run"))]
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                main()
        except SystemExit as end:
            if end.code:
                raise SystemExit(f"The training failed: {errors.getvalue()}") from end
        finally:
            sys.argv = given
    return root, watch.called


def by_room(root: Path, files: Iterable[str]) -> dict[str, list[str]]:
    """The names of the files by their folder below the package, "." for those of the package itself."""
    rooms: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted(Path(file).relative_to(root) for file in files):
        rooms[str(path.parent)].append(path.stem)
    return dict(sorted(rooms.items()))


def imported(root: Path) -> set[str]:
    """The files of the package that are imported now."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {file for file in files if file is not None and file.startswith(f"{root}/")}


def main() -> None:
    """Measure, and print the files by room."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", default="cora", help="what to train on")
    parser.add_argument("--epochs", type=int, default=3, help="how long")
    parser.add_argument("--imported", action="store_true", help="list the files that are imported, too")
    options = parser.parse_args()
    root, called = train(options.dataset, options.epochs)
    found = {"whose functions are called": called}
    found |= {"that are imported": imported(root)} if options.imported else {}
    for what, files in found.items():
        print(f"{len(files)} files {what}")
        for room, names in by_room(root, files).items():
            print(f"  {room:12} {len(names):3}  {' '.join(names)}")


if __name__ == "__main__":
    main()
