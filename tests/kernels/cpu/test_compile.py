from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import armagnn
from armagnn.kernels.cpu import compile as compiling

STORED = "builder.store(final, builder.bitcast(target, vector.as_pointer()), align=self.size)"
PRODUCT = """
import torch
from armagnn.kernels.cpu import sparse
pointer, col, value = torch.tensor([0, 2, 3]).int(), torch.tensor([0, 1, 1]).int(), torch.tensor([1.0, 2.0, 3.0])
out = sparse.gcs(pointer, col, value, torch.ones(2, 2), None, None, "none", 0.0)
print(out.flatten().tolist(), [k.stats.cache_hits != {} for k in [sparse._product]])
"""


def product(package: Path) -> str:
    """What a fresh process computes with this copy of the package."""
    own = {"PYTHONPATH": str(package.parent), "OMP_NUM_THREADS": "1"}
    names = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    ran = subprocess.run([sys.executable, "-c", PRODUCT], env=names | own, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_a_change_in_a_file_that_a_kernel_calls_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "armagnn"
    shutil.copytree(Path(armagnn.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    assert product(package) == "[3.0, 3.0, 3.0, 3.0] [False]"
    assert product(package) == "[3.0, 3.0, 3.0, 3.0] [True]"  # from the cache: it works
    leaf = package / "kernels" / "cpu" / "gather.py"
    text = leaf.read_text()
    assert STORED in text
    leaf.write_text(text.replace(STORED, STORED.replace("final", "zero")))
    assert product(package) == "[0.0, 0.0, 0.0, 0.0] [False]"
    leaf.write_text(text)
    assert product(package) == "[3.0, 3.0, 3.0, 3.0] [True]"  # the code of before is still there


def test_the_digest_sees_names_and_contents(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    seen = {compiling.digest_of(tmp_path)}
    (tmp_path / "a.py").write_text("2")
    seen.add(compiling.digest_of(tmp_path))
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    seen.add(compiling.digest_of(tmp_path))
    (tmp_path / "c.py").touch()
    seen.add(compiling.digest_of(tmp_path))
    for below in (tmp_path / "cpu", tmp_path / "gpu"):  # sub-folders, too: what they are called and what they hold
        below.mkdir()
        (below / "c.py").touch()
        seen.add(compiling.digest_of(tmp_path))
        (below / "c.py").write_text("3")
        seen.add(compiling.digest_of(tmp_path))
        (below / "c.py").unlink()
    assert len(seen) == 8
    assert None not in seen
    assert compiling.digest_of(tmp_path / "nowhere") is None


def test_a_new_compiler_or_processor_gets_another_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite
    import numba
    from llvmlite import binding

    seen = {compiling.folder_key("sources"), compiling.folder_key("other sources")}
    for owner in (numba, llvmlite):
        monkeypatch.setattr(owner, "__version__", "99")
        seen.add(compiling.folder_key("sources"))
    monkeypatch.setattr(binding, "get_host_cpu_name", lambda: "abacus")
    seen.add(compiling.folder_key("sources"))
    assert len(seen) == 5


def test_the_first_place_that_can_be_written_to_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    taken = compiling.first_usable([tmp_path / "file", tmp_path / "place"], "0")
    assert taken == tmp_path / "place" / "armagnn-0"
    assert compiling.first_usable([tmp_path / "file"], "0") is None


def test_old_folders_are_removed_and_the_files_of_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "module.cpython-311.pyc").touch()
    for k in range(compiling.KEPT):
        made = compiling.first_usable([tmp_path], f"{k}")
        assert made is not None
        (made / "code.nbc").touch()
        os.utime(made, (k, k))
    compiling.first_usable([tmp_path], "0")  # used again: the newest
    compiling.first_usable([tmp_path], "new")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"module.cpython-311.pyc", "armagnn-new", "armagnn-0"} | {
        f"armagnn-{k}" for k in range(2, compiling.KEPT)
    }


def test_without_a_place_the_code_is_compiled_in_every_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "code_folder", lambda: None)

    def twice(x: int) -> int:
        return 2 * x

    function = compiling.compiled()(twice)
    assert function(21) == 42
    assert type(function._cache).__name__ == "NullCache"


def test_a_place_that_the_user_chose_by_its_class_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There numba's stamp, which knows one file, would be the only one."""
    import numba

    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "InTreeCacheLocator", raising=False)

    def thrice(x: int) -> int:
        return 3 * x

    assert type(compiling.compiled()(thrice)._cache).__name__ == "NullCache"
