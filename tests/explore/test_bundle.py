"""The explorer's script: it is what its source gives, small, and computes what Python computes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.explore.explorer_page import bundle, known_graphs
from armagnn.filters import ARMAFilter, ChebyshevFilter
from armagnn.filters.targets import NAMED, resolve
from explore.browser import PACKAGES, SOURCE, in_node, needs_packages


def random_filters(count: int) -> list[ARMAFilter]:
    """Filters of order 1 to 8, with real terms, pairs and halves of pairs, stable or not."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        pairs, singles = int(rng.integers(0, 4)), int(rng.integers(0, 3))
        a = rng.uniform(-1.5, 1.5, pairs) + 1j * rng.uniform(0.05, 2.0, pairs) * rng.choice([-1, 1], pairs)
        b = rng.normal(size=pairs) + 1j * rng.normal(size=pairs)
        real_a, real_b = rng.uniform(-0.99, 0.99, singles), rng.normal(size=singles)
        if number % 4 and pairs:  # else halves of pairs
            a, b = np.stack([a, a.conj()], 1).ravel(), np.stack([b, b.conj()], 1).ravel()
        a, b = np.concatenate([a, real_a, [0.9]]), np.concatenate([b, real_b, [0.1]])
        found.append(ARMAFilter(a.tolist(), b.tolist()))
    return found


def parts(filter: ARMAFilter) -> dict[str, list[list[float]]]:
    return {name: torch.view_as_real(v.to(torch.complex128)).tolist() for name, v in (("a", filter.a), ("b", filter.b))}


def test_the_bundle_is_what_its_source_gives(tmp_path: Path) -> None:
    node = needs_packages()
    built = tmp_path / "explorer.js"
    subprocess.run([node, "build.mjs", str(built)], cwd=SOURCE, check=True, timeout=120)
    assert built.read_text(encoding="utf-8").strip() == bundle(), "run `make explorer` and commit the script"


def test_the_source_has_no_error_of_types() -> None:
    node = needs_packages()
    done = subprocess.run(
        [node, str(PACKAGES / "typescript" / "bin" / "tsc"), "--noEmit"],
        cwd=SOURCE, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_the_bundle_is_small_and_asks_for_nothing() -> None:
    script = bundle()
    assert len(script.encode()) < 150_000
    assert not [word for word in ("fetch(", "XMLHttpRequest", "WebSocket", "import(", "eval(") if word in script]
    assert script.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    # either would end the element of the page that holds the script
    assert "</script" not in script
    assert "<!--" not in script


def test_responses_agree_with_python() -> None:
    filters = random_filters(40)
    mu = np.linspace(-1, 1, 2001)
    found = in_node(
        "const { core } = armagnnExplorer;"
        "return given.filters.map(({ a, b }) => Array.from(core.response(core.fromCoefficients(a, b), given.mu)));",
        {"filters": [parts(f) for f in filters], "mu": mu.tolist()},
    )
    for filter, values in zip(filters, found, strict=True):
        truth = filter.response(mu)
        assert np.abs(np.array(values) - truth).max() <= 1e-12 * max(1.0, np.abs(truth).max())


def test_steps_of_the_recursion_agree_with_eq_8() -> None:
    mu, steps = np.linspace(-1, 1, 201), [1, 2, 3, 10, 60]
    filters = [f for f in random_filters(12) if float(f.a.abs().max()) < 1.2] + [ARMAFilter([1.0], [0.5])]
    found = in_node(
        "const { core } = armagnnExplorer;"
        "return given.filters.map(({ a, b }) => given.steps.map((T) =>"
        "  Array.from(core.recursion(core.fromCoefficients(a, b), given.mu, T))));",
        {"filters": [parts(f) for f in filters], "mu": mu.tolist(), "steps": steps},
    )
    for filter, by_steps in zip(filters, found, strict=True):
        a, b = (v.to(torch.complex128).numpy()[:, None] for v in (filter.a, filter.b))
        state = b * np.ones_like(mu)
        for step in range(1, max(steps) + 1):
            state = a * mu * state + b
            if step in steps:
                truth = state.sum(0).real
                error = np.abs(np.array(by_steps[steps.index(step)]) - truth).max()
                assert error <= 1e-11 * max(1.0, np.abs(truth).max())


def test_targets_and_chebyshev_filters_agree_with_python() -> None:
    mu = resolve("heat").mu
    found = in_node(
        "const { core } = armagnnExplorer;"
        "return Object.entries(core.NAMED).map(([name, target]) => {"
        "  const c = core.chebyshevSeries(core.CHEBYSHEV_POINTS.map(target), 12);"
        "  const h = core.chebyshevResponse(c, given.mu);"
        "  return [name, given.mu.map(target), Array.from(c), Array.from(h)];"
        "});",
        {"mu": mu.tolist()},
    )
    assert [name for name, *_ in found] == list(NAMED)
    for name, values, series, response in found:
        filter = ChebyshevFilter.design(name, 12)
        np.testing.assert_allclose(values, resolve(name).value.numpy(), rtol=0, atol=1e-14)
        np.testing.assert_allclose(series, filter.c.numpy(), rtol=0, atol=1e-12)
        np.testing.assert_allclose(response, filter.response(mu).numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("stable", [False, True], ids=["free", "stable"])
def test_designs_are_as_good_as_python_s(stable: bool) -> None:
    orders = [1, 2, 4]
    found = in_node(
        "const { core } = armagnnExplorer;"
        "const mu = core.midpoints();"
        "return Object.keys(core.NAMED).map((name) => given.orders.map((K) => {"
        "  const steps = core.design(mu, mu.map(core.NAMED[name]), K, given.stable);"
        "  let step = steps.next();"
        "  while (!step.done) step = steps.next();"
        "  return core.coefficients(step.value);"
        "}));",
        {"orders": orders, "stable": stable},
    )
    for name, by_order in zip(NAMED, found, strict=True):
        wanted = resolve(name)
        for order, coefficients in zip(orders, by_order, strict=True):
            a, b = ([complex(*v) for v in coefficients[key]] for key in ("a", "b"))
            filter = ARMAFilter(a, b)
            assert filter.order == order
            assert not stable or float(filter.a.abs().max()) < 1
            rms = float((filter.response(wanted.mu) - wanted.value).square().mean().sqrt())
            report = ARMAFilter.design(name, order, stable).report
            assert report is not None
            assert rms <= 1.02 * report.rms + 1e-4, (name, order)


def test_signals_are_filtered_as_in_python() -> None:
    """200 Lanczos steps; on the sensor network, of 300 nodes, as many as there are frequencies."""
    filters = [ARMAFilter.design("low-pass", 4), ARMAFilter.design("comb", 5), ARMAFilter([0.99], [0.1])]
    found = in_node(
        "const { core } = armagnnExplorer;"
        "return given.graphs.map((content) => {"
        "  const graph = core.unpack(content);"
        "  const work = core.decompose(graph.matrix, graph.signal, graph.size <= 400 ? graph.size : 200);"
        "  let step = work.next();"
        "  while (!step.done) step = work.next();"
        "  const parts = step.value;"
        "  const results = given.filters.map(({ a, b }) => {"
        "    const h = core.response(core.fromCoefficients(a, b), parts.mu);"
        "    const y = core.filtered(parts, h, new Float64Array(graph.size));"
        "    return [Array.from(y), core.missing(parts, h)];"
        "  });"
        "  return [Array.from(graph.rows), Array.from(graph.columns), Array.from(graph.signal), results];"
        "});",
        {"graphs": known_graphs(), "filters": [parts(f) for f in filters]},
    )
    assert len(found) == 3
    for rows, columns, x, results in found:
        edges = torch.tensor([rows + columns, columns + rows])
        op = GraphOperator.from_edge_index(edges, num_nodes=len(x), dtype=torch.float64)
        signal = torch.tensor(x, dtype=torch.float64)
        for filter, (values, missing) in zip(filters, results, strict=True):
            truth = filter.filter(op, signal, tol=1e-13)
            error = float((torch.tensor(values, dtype=torch.float64) - truth).norm() / truth.norm())
            assert error <= (1e-9 if len(x) == 300 else 1e-5)
            assert error <= 10 * missing + 1e-9  # the page says how much is missing


def test_the_residues_of_given_poles_are_the_best_ones() -> None:
    a = [complex(0.4, 0.8), complex(0.4, -0.8), 0.5, -0.7]
    mu = resolve("comb").mu.numpy()
    b = in_node(
        "const { core } = armagnnExplorer;"
        "const mu = core.midpoints();"
        "const terms = core.fromCoefficients(given.a, given.a.map(([re, im]) => [0.1, 0]));"
        "return core.coefficients(core.fitResidues(terms, mu, mu.map(core.NAMED.comb))).b;",
        {"a": [[v.real, v.imag] for v in map(complex, a)]},
    )
    columns = 1 / (1 - mu[:, None] * np.array(a))
    basis = np.stack([2 * columns[:, 0].real, -2 * columns[:, 0].imag, columns[:, 2].real, columns[:, 3].real], 1)
    best = np.linalg.lstsq(basis, resolve("comb").value.numpy(), rcond=None)[0]
    np.testing.assert_allclose([b[0][0], b[0][1], b[2][0], b[3][0]], best, rtol=1e-8)


def test_the_python_line_makes_the_same_filter() -> None:
    filters = random_filters(12)
    lines = in_node(
        "const { core } = armagnnExplorer;return given.map(({ a, b }) => core.python(core.fromCoefficients(a, b)));",
        [parts(f) for f in filters],
    )
    mu = np.linspace(-1, 1, 101)
    for filter, line in zip(filters, lines, strict=True):
        again = eval(line, {"ARMAFilter": ARMAFilter})
        np.testing.assert_allclose(again.response(mu), filter.response(mu), rtol=1e-12, atol=1e-13)


def test_the_first_filter_is_a_design_of_ours() -> None:
    first = in_node("const { core } = armagnnExplorer; return core.coefficients(core.FIRST);", None)
    filter = ARMAFilter.design("low-pass", 4)
    mu = np.linspace(-1, 1, 101)
    shown = ARMAFilter(*([complex(*v) for v in first[key]] for key in ("a", "b")))
    np.testing.assert_allclose(shown.response(mu), filter.response(mu), atol=1e-4)
