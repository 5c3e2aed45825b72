"""What is imported when: no command's help waits for torch, and torch knows the operators wherever armagnn is."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import armagnn

HEAVY = ("torch", "numba", "scipy", "sklearn", "matplotlib", "torch_geometric", "networkx", "ray")


def imported(code: str, *names: str) -> set[str]:
    """Which of the modules `names` are there after `code` in a process of its own."""
    tail = f"\nimport sys\nprint('imported:', *set({names!r}).intersection(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code + tail], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rsplit("imported:", 1)[1].split())


def of_command(*arguments: str) -> set[str]:
    """Which heavy modules a command imports."""
    call = "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code"
    return imported(f"import sys; sys.argv[1:] = {list(arguments)!r}\nfrom armagnn.cli import main\n{call}", *HEAVY)


def test_the_package_alone_imports_nothing_heavy() -> None:
    assert imported("import armagnn", *HEAVY) == set()


def test_an_operator_needs_torch_alone() -> None:
    assert imported("from armagnn import GraphOperator", *HEAVY) == {"torch"}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["-V"],
        ["--help"],
        ["bench", "--help"],
        ["show", "--help"],
        ["predict", "--help"],
        ["data", "--help"],
        ["reproduce", "--help"],
        ["figure", "-h"],
        ["results", "--help"],
        ["train", "--help"],
        ["train", "graphs", "--help"],
        ["train", "signals", "-h"],
    ],
)
def test_no_help_waits_for_torch(arguments: list[str]) -> None:
    assert of_command(*arguments) == set()


@pytest.mark.parametrize(
    "code",
    [
        "import armagnn, torch",
        "import torch, armagnn",
        "import armagnn.kernels",
        "import armagnn.kernels.ops",
        "import armagnn.operators.csr",
        "import armagnn.nn",
        "import armagnn.errors\nimport torch",
    ],
)
def test_torch_knows_the_operators(code: str) -> None:
    name = "armagnn.kernels.ops_rules"
    assert name in imported(f"{code}\nimport torch; torch.ops.armagnn.spmm", name)


def test_torch_is_imported_as_without_armagnn() -> None:
    code = "import sys, armagnn\nbefore = len(sys.meta_path)\nimport torch\nassert len(sys.meta_path) == before - 1\n"
    imported(
        f"{code}assert 'exec_module' not in vars(torch.__spec__.loader)\nimport importlib; importlib.reload(armagnn)"
    )


def test_a_torch_that_is_missing_is_missed_by_its_own_name() -> None:
    code = (
        "import sys, importlib.machinery, armagnn\n"
        "sys.path_hooks.clear(); sys.path_importer_cache.clear(); sys.path[:] = []\n"
        "try:\n    import torch\nexcept ModuleNotFoundError as error:\n    assert error.name == 'torch', error\n"
        "else:\n    raise AssertionError\n"
    )
    imported(code)


def test_the_shell_completes_options_without_torch() -> None:
    ask = {"_ARMAGNN_COMPLETE": "complete_bash", "COMP_WORDS": "armagnn train graphs --spl", "COMP_CWORD": "3"}
    code = (
        f"import contextlib, io, os\nos.environ.update({ask!r})\nfrom armagnn.cli import main\nsaid = io.StringIO()\n"
        "with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):\n    main()\n"
        "assert said.getvalue().split() == ['--split-seed'], said.getvalue()"
    )
    assert imported(code, *HEAVY) == set()


LAZY = ("armagnn", "armagnn.tasks", "armagnn.training")


@pytest.mark.parametrize("name", LAZY)
def test_the_names_that_type_checkers_see_are_there(name: str) -> None:
    package = import_module(name)
    tree = ast.parse(inspect.getsource(package))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    own = {
        node.target.id for node in tree.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    assert set(package.__all__) - {"__version__"} - own == seen.keys()
    assert set(package.__all__) <= set(dir(package))
    assert seen.keys().isdisjoint(path.stem for path in Path(str(package.__file__)).parent.iterdir())  # no module's
    for each, place in seen.items():
        assert getattr(package, each) is getattr(import_module(str(place)), each)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


def test_python_m_armagnn() -> None:
    done = subprocess.run([sys.executable, "-m", "armagnn", "-V"], capture_output=True, text=True, timeout=60)
    assert done.stdout == f"armagnn {armagnn.__version__}\n"
