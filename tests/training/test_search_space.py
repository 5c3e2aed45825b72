from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armagnn.errors import ParameterError
from armagnn.training import GraphsConfig, NodesConfig, SignalsConfig
from armagnn.training.config import Config
from armagnn.training.search_space import USUAL, Axis, search_space


@pytest.mark.parametrize("kind", [NodesConfig, GraphsConfig, SignalsConfig])
@pytest.mark.parametrize("conv", ["arma", "gcn", "gat", "mlp", "chebyshev"])
def test_what_is_searched_by_default_is_valid(kind: type[Config], conv: str) -> None:
    config = kind(conv=conv)
    axes = search_space(config)
    assert {"lr", "l2"} <= {axis.name for axis in axes}
    assert ("skip_dropout" in {axis.name for axis in axes}) == (conv == "arma")
    for end in (0, -1):
        replace(config, **{axis.name: (axis.choices or (axis.low, axis.high))[end] for axis in axes})


@given(st.sampled_from([axis for axis in USUAL.values() if not axis.choices]), st.floats(0, 1))
def test_rounded_values_stay_in_the_range(axis: Axis, share: float) -> None:
    value = axis.low + share * (axis.high - axis.low)
    value = round(value) if axis.whole else value
    assert axis.has(axis.rounded(value))


def test_the_help_and_the_errors_say_how_to_write_an_axis() -> None:
    with pytest.raises(ParameterError, match=r"act=low\.\.high or act=a\|b\|c"):
        search_space(NodesConfig(), ["act"])
    assert search_space(NodesConfig(), ["act=elu|relu"])[0].choices == ("elu", "relu")
    assert search_space(NodesConfig(), ["skip-dropout"])[0] == USUAL["skip_dropout"]


def test_axes() -> None:
    assert Axis("lr", low=1e-3, high=0.1, log=True).rounded(0.0123456) == 0.0123
    assert Axis("lr", low=1.2345e-3, high=0.1, log=True).rounded(1.2345e-3) == 1.2345e-3
    assert Axis("p", low=0.0, high=0.8).rounded(0.0) == 0.0
    assert Axis("hidden", (8, 16)).has(16)
