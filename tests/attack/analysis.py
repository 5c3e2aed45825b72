"""Solvers, filters and spectra with valid arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torch

from armagnn.filters import (
    ARMAFilter,
    BoundFilter,
    CayleyFilter,
    ChebyshevFilter,
    Filter,
    FilterBank,
    GCNFilter,
    PolynomialFilter,
    SpectralFilter,
)
from armagnn.nn import ARMAConv
from armagnn.solvers import FixedPoint, Solution, Statistics, anderson, implicit, picard
from armagnn.spectral import (
    Density,
    band_response,
    components,
    empirical_gain,
    empirical_response,
    extremal,
    layer_response,
    plot_signal,
    spectral_density,
    spectrum,
    stack_outputs,
)
from attack.subjects import Call, edges, features, graph


def solvers() -> Iterator[Call]:
    half = lambda x, rows: 0.5 * x + 1  # noqa: E731
    start = torch.zeros(2, 3)
    solver = FixedPoint()
    yield Call(
        "solvers.FixedPoint", lambda **a: ARMAConv(3, 2, 2, fixed_point=FixedPoint(**a))(features(), graph()),
        {"tol": 1e-5, "max_iter": 100, "contraction": 0.9, "backward": "implicit", "solver": "anderson",
         "on_failure": "raise"},
    )  # fmt: skip
    yield Call(
        "solvers.FixedPoint.solve", lambda **a: solver.solve(**a), {"step": half, "frozen": half, "initial": start}
    )
    for function in (anderson, picard):
        more = {"memory": 4} if function is anderson else {}
        yield Call(
            f"solvers.{function.__name__}", lambda step, function=function, **a: function(step, **a),
            {"step": half, "initial": start, "tol": 1e-5, "max_iter": 100} | more,
        )  # fmt: skip
    yield Call(
        "solvers.implicit", lambda **a: implicit(**a),
        {"step": half, "frozen": half, "solution": start + 2, "solve": lambda g, initial: picard(g, initial, 1e-5,
         100)},
    )  # fmt: skip
    good = Statistics([[1.0, 0.1]], [0.1], [True])
    yield Call("solvers.Solution", lambda **a: repr(Solution(**a)), {"value": start, "statistics": good})
    yield Call(
        "solvers.Statistics",
        lambda **a: Statistics(**a).steps,
        {"residuals": [[1.0, 0.1]], "tolerances": [0.1], "converged": [True]},
    )


def filters() -> Iterator[Call]:
    op, x = graph(), features()
    made: dict[str, tuple[Any, dict[str, Any], str]] = {
        "ARMAFilter": (ARMAFilter, {"a": [0.5, 0.2], "b": [0.3, 0.1]}, "arma"),
        "CayleyFilter": (CayleyFilter, {"w": [0.5, 0.2], "zoom": 1.0}, "laplacian"),
        "ChebyshevFilter": (ChebyshevFilter, {"c": [0.5, 0.2, 0.1]}, "arma"),
        "GCNFilter": (GCNFilter, {"gamma": 1.0, "T": 2}, "gcn"),
        "PolynomialFilter": (PolynomialFilter, {"w": [0.5, 0.2, 0.1], "variable": "mu"}, "arma"),
        "SpectralFilter": (SpectralFilter, {"h": lambda mu: mu**2}, "arma"),
    }
    for name, (cls, args, kind) in made.items():
        good, own = cls(**args), graph(kind)
        methods = sorted(good.methods)
        try:
            good.filter(own, x, methods[0])
        except Exception:
            own = op
        method = {"method": "exact" if "exact" in methods else methods[0]}

        def use(cls: Any = cls, own: Any = own, **a: Any) -> Any:
            made = cls(**a)
            return made.response(torch.linspace(-1, 1, 5)), made.filter(own, x), repr(made)

        yield Call(f"filters.{name}", use, args)
        yield Call(
            f"filters.{name}.response", lambda mu, good=good: good.response(mu), {"mu": torch.linspace(-1, 1, 5)}
        )
        yield Call(f"filters.{name}.filter", lambda good=good, **a: good.filter(**a), {"op": own, "x": x} | method)
        if name == "ARMAFilter":
            for way, options in {"recursion": {"max_iter": 50, "tol": 1e-3}, "exact": {"tol": 1e-6}}.items():
                yield Call(
                    f"filters.{name}.filter",
                    lambda good=good, **a: good.filter(**a),
                    {"op": own, "x": x, "method": way} | options,
                )
        yield Call(f"filters.{name}.bind", lambda good=good, x=x, **a: good.bind(**a) @ x, {"op": own} | method)
        yield Call(f"filters.{name}.check_method", good.check_method, {"options": ["spectrum"], "method": "eigen"})
        yield Call(f"filters.{name}.meant", good.meant, {"op": own})
        yield Call(f"filters.{name}.check_operator", lambda op, good=good: good.check_operator(op), {"op": own})
        yield Call(
            f"filters.{name}.plot",
            lambda good=good, **a: _closed(good.plot(**a)),
            {"ax": None, "mu": torch.linspace(-1, 1, 5)},
        )
    yield Call(
        "filters.GCNFilter.on_regular",
        lambda **a: GCNFilter().on_regular(**a),
        {"mu": torch.linspace(-1, 1, 5), "degree": 3.0},
    )
    yield Call(
        "filters.GCNFilter.operator",
        lambda **a: GCNFilter().operator(**a),
        {"graph": edges(), "num_nodes": 6, "edge_weight": torch.ones(14)},
    )
    yield Call(
        "filters.ARMAFilter.design",
        lambda **a: ARMAFilter.design(**a),
        {"target": "low-pass", "order": 3, "stable": True},
    )
    yield Call(
        "filters.ChebyshevFilter.design",
        lambda **a: ChebyshevFilter.design(**a),
        {"target": "low-pass", "order": 3, "jackson": True},
    )
    yield Call(
        "filters.ARMAFilter.from_rational",
        lambda **a: ARMAFilter.from_rational(**a),
        {"p": [1.0], "q": [0.5], "variable": "mu"},
    )
    yield Call(
        "filters.ARMAFilter.to_rational",
        lambda variable: ARMAFilter([0.5], [0.3]).to_rational(variable),
        {"variable": "lambda"},
    )
    arma = ARMAFilter([0.5], [0.3])
    yield Call(
        "filters.BoundFilter",
        lambda **a: BoundFilter(**a) @ x,
        {"filter": arma, "op": op, "method": "exact", "tol": 1e-6},
    )
    yield Call("filters.BoundFilter.plot", lambda **a: _closed(arma.bind(op).plot(**a)), {"ax": None, "mu": [0.5]})
    yield Call("filters.BoundFilter.response", arma.bind(op).response, {"mu": torch.linspace(-1, 1, 5)})
    yield Call("filters.BoundFilter.matmul", lambda x: arma.bind(op) @ x, {"x": x})
    for method in ("bind", "filter", "check_operator", "plot", "response"):
        args = {
            "bind": {"op": op},
            "filter": {"op": op, "x": x},
            "check_operator": {"op": op},
            "plot": {"ax": None},
            "response": {"mu": x},
        }
        yield Call(f"filters.Filter.{method}", lambda method=method, **a: getattr(_Square(), method)(**a), args[method])

    bank = FilterBank.of([0.9, -0.5])
    yield Call(
        "filters.FilterBank", lambda **a: FilterBank(**a).filter(op, x), {"filters": bank.filters, "names": ("a", "b")}
    )
    yield Call("filters.FilterBank.of", lambda filters: FilterBank.of(filters).filter(op, x), {"filters": [0.9, arma]})
    yield Call("filters.FilterBank.filter", bank.filter, {"op": op, "x": x, "tol": 1e-5, "max_iter": 100})
    yield Call("filters.FilterBank.numbers_at_peak", bank.numbers_at_peak, {"passthrough": True})
    stored = bank.to_json()
    yield Call("filters.FilterBank.from_json", lambda content: FilterBank.from_json(content), {"content": stored})
    yield Call(
        "filters.FilterBank.parsed",
        lambda content: FilterBank.parsed(content, "a file"),
        {"content": json.dumps(stored).encode()},
    )


class _Square(Filter):
    """A filter of a user, with nothing but what must be there."""

    def _response(self, mu: Any) -> Any:
        return mu**2

    def _apply(self, op: Any, x: Any, method: str, **options: Any) -> Any:
        return op @ (op @ x)


def _closed(axes: Any) -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


def spectral() -> Iterator[Call]:
    op, x = graph(), features()
    mu, U = torch.linalg.eigh(op.to_dense())
    conv = ARMAConv(3, 2, 2, 2)
    yield Call("spectral.spectrum", lambda **a: spectrum(**a), {"op": op, "cache": False, "max_nodes": 100})
    yield Call("spectral.extremal", lambda **a: extremal(**a), {"op": op, "k": 2, "which": "both", "tol": 1e-8})
    yield Call(
        "spectral.spectral_density",
        lambda **a: spectral_density(**a).moments,
        {"op": op, "moments": 10, "probes": 3, "seed": 0},
    )
    density = spectral_density(op, 10, 3)
    yield Call(
        "spectral.Density",
        lambda mu, **a: Density(**a).count(mu),
        {"moments": density.moments, "low": -1.0, "high": 1.0, "mu": mu},
    )
    yield Call("spectral.Density.count", lambda mu: density.count(mu), {"mu": mu})
    yield Call("spectral.Density.plot", lambda **a: _closed(density.plot(**a)), {"ax": None})
    yield Call(
        "spectral.plot_signal", lambda **a: _closed(plot_signal(**a)),
        {"op": op, "x": x[:, 0], "pos": x[:, :2], "ax": None, "size": 9.0, "colorbar": True, "title": "x"},
    )  # fmt: skip
    yield Call("spectral.components", lambda **a: components(**a), {"U": U, "x": x})
    for function in (empirical_gain, empirical_response):
        yield Call(
            f"spectral.{function.__name__}",
            lambda function=function, **a: function(**a),
            {"U": U, "x": x, "y": op @ x, "silent": 1e-6},
        )
    yield Call(
        "spectral.band_response", lambda **a: band_response(**a), {"mu": mu, "U": U, "x": x, "y": op @ x, "bands": 3}
    )
    yield Call("spectral.layer_response", lambda **a: layer_response(**a), {"conv": conv, "x": x, "op": op, "U": U})
    yield Call("spectral.stack_outputs", lambda **a: stack_outputs(**a), {"conv": conv, "x": x, "op": op})
