"""Deep networks on Cora are what their forms say, and their rows hold validation, test and distance."""

from __future__ import annotations

import pytest
import torch

from armagnn.spectral.plot import picture
from armagnn_paper.claims import ClaimRow, cora
from armagnn_paper.claims_deep import (
    DEEP,
    DEEPEST,
    DEPTHS,
    FORMS,
    METHODS,
    draw_deep,
    jobs_on,
    last_hidden,
    measure_deep,
    network,
)


@pytest.mark.parametrize("method", METHODS)
def test_a_form_is_its_norm_and_a_residual_of_one_part_in_depth(method: str) -> None:
    for form, (norm, residual) in FORMS.items():
        net = network(method, form, 4)
        assert (len(net.convs), len(net.norms), net.residual) == (4, 0 if norm == "none" else 3, residual)
        assert net.scale == 0.25


def test_the_last_hidden_units_are_what_the_last_convolution_is_given() -> None:
    torch.manual_seed(0)
    net = network("gcn", "layer norm, residual / L", 3).eval()
    data = cora()
    op = net.conv1.operator(data.edge_index, data.num_nodes)
    hidden = last_hidden(net)
    assert hidden.shape == (data.num_nodes, 16)
    assert torch.allclose(net.conv2(hidden, op), net(data.x, op), atol=1e-5)


def test_every_network_is_a_job_of_its_own_rows() -> None:
    jobs = jobs_on("cuda")
    depths = sum(depth <= DEEPEST[method] for depth in DEPTHS for method in METHODS)
    assert len(jobs) == depths * len(FORMS) == len({tuple(job.covers.values()) for job in jobs}) == 90
    assert [job.covers for job in jobs] == [job.covers for job in DEEP.jobs]
    assert jobs[0].measure.args[-1] == "cuda"  # type: ignore[attr-defined]


def test_rows_of_a_training_can_be_drawn() -> None:
    rows = measure_deep("gcn", "no norm, residual / L", 3, "cpu", 2, epochs=3)
    assert [(row.run, row.metric) for row in rows] == [
        (run, metric) for run in (0, 1) for metric in ("validation accuracy", "accuracy", "distance")
    ]
    assert all(0 <= row.value <= 100 for row in rows)
    more = [ClaimRow(row.method, row.variable, "64", row.run, row.metric, row.value) for row in rows]
    assert picture(draw_deep([*rows, *more]))[:4] == b"\x89PNG"
