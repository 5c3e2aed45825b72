"""The claims' measurements: what they measure, how they are kept, and that they go on where they stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from armagnn import GraphOperator
from armagnn.cli import app
from armagnn.errors import DataError, UnknownNameError
from armagnn.sealed import write_sealed
from armagnn.spectral.plot import picture
from armagnn_paper import claims, claims_depth, claims_robustness, claims_stacks, claims_transfer
from armagnn_paper.claims_rows import ClaimRow, Measurement, line_of, measure, read_rows, to_csv

COMMITTED = Path(__file__).parents[2] / "results" / "claims"
EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


def rows_of(method: str, runs: int, value: float = 1.0) -> list[ClaimRow]:
    return [ClaimRow(method, "v", "1", run, "m", value) for run in range(runs)]


def test_what_a_file_holds_is_not_measured_again(tmp_path: Path) -> None:
    asked: list[str] = []

    def job(method: str) -> Measurement:
        def run(runs: int) -> list[ClaimRow]:
            asked.append(method)
            return rows_of(method, runs, 0.1 + 0.2)

        return Measurement({"method": method}, run)

    path = tmp_path / "deep" / "claim.csv"
    assert len(list(measure([job("a")], path, 2))) == 1
    assert len(list(measure([job("a"), job("b")], path, 2))) == 1
    assert asked == ["a", "b"]
    assert [row.method for row in read_rows(path)] == ["a", "a", "b", "b"]
    assert read_rows(path)[0].value == pytest.approx(0.3)
    assert len(list(measure([job("a")], path, 3))) == 1  # more runs than there are
    runs = {method: sorted(row.run for row in read_rows(path) if row.method == method) for method in "ab"}
    assert runs == {"a": [0, 1, 2], "b": [0, 1]}


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "claim.csv"
    wrong = {"a,b\n1,2\n": "its first line must be", to_csv([]) + "arma,v,1,zero,m,1\n": "not the rows of a claim"}
    for content, message in wrong.items():
        write_sealed(path, content.encode())
        with pytest.raises(DataError, match=message):
            read_rows(path)


def test_unknown_claims_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="robustness"):
        claims.claim("robustnes")


def test_edges_are_removed_and_added_in_pairs() -> None:
    generator = torch.Generator().manual_seed(0)
    fewer = claims_robustness.without_edges(EDGES, 0.5, generator)
    assert fewer.shape == (2, 4)
    more = claims_robustness.with_edges(EDGES, 5, 1.5, generator)
    assert more.shape == (2, 20)  # all the pairs that there are
    for edges in (fewer, more):
        pairs = {tuple(pair) for pair in edges.T.tolist()}
        assert len(pairs) == edges.shape[1]
        assert pairs == {(b, a) for a, b in pairs}
        assert all(a != b for a, b in pairs)
    old = {tuple(pair) for pair in EDGES.T.tolist()}
    assert {tuple(pair) for pair in fewer.T.tolist()} <= old <= {tuple(pair) for pair in more.T.tolist()}
    assert torch.equal(
        claims_robustness.without_edges(EDGES, 0.0, generator).sort(1).values,
        claims_robustness.with_edges(EDGES, 5, 0.0, generator).sort(1).values,
    )


def test_noise_has_the_size_it_is_said_to_have() -> None:
    x = torch.rand(200, 50, generator=torch.Generator().manual_seed(1))
    noise = claims_robustness.noisy(x, 2.0, torch.Generator().manual_seed(0)) - x
    assert noise.std().item() == pytest.approx(2 * x.square().mean().sqrt().item(), rel=0.03)


def test_smoothness_of_what_is_known() -> None:
    laplacian = GraphOperator.from_edge_index(EDGES, kind="laplacian", dtype=torch.float64)
    values, vectors = torch.linalg.eigh(laplacian.to_dense())
    for value, vector in zip(values, vectors.T, strict=True):
        assert claims_depth.dirichlet_energy(laplacian, vector[:, None]) == pytest.approx(value.item(), abs=1e-12)
    zero = torch.zeros(5, 2)
    assert claims_depth.dirichlet_energy(laplacian, zero.double()) != claims_depth.dirichlet_energy(
        laplacian, zero.double()
    )
    h = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    pairs = [1 - torch.cosine_similarity(h[i], h[j], dim=0).item() for i in range(5) for j in range(i)]
    assert claims_depth.mean_distance(h) == pytest.approx(sum(pairs) / 10, abs=1e-6)
    assert claims_depth.mean_distance(torch.ones(4, 2)) == pytest.approx(0.0, abs=1e-12)


def test_stacks_that_are_the_same_and_stacks_that_are_not() -> None:
    op = GraphOperator.from_edge_index(EDGES, dtype=torch.float64)
    mu, U = torch.linalg.eigh(op.to_dense())
    one = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    same = claims_stacks.compare_stacks(torch.stack([one, 2 * one]), mu, U)
    assert same == {"cosine": pytest.approx(1.0), "cka": pytest.approx(1.0), "response": pytest.approx(0.0, abs=1e-12)}
    turned = one @ torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    rotated = claims_stacks.compare_stacks(torch.stack([one, turned]), mu, U)
    assert rotated["cosine"] < 0.99
    assert rotated["cka"] == pytest.approx(1.0)
    smooth, rough = U[:, [-1]] @ torch.ones(1, 3).double(), U[:, [0]] @ torch.ones(1, 3).double()
    assert claims_stacks.compare_stacks(torch.stack([smooth, rough]), mu, U)["response"] > 1


@pytest.mark.parametrize("name", list(claims_transfer.KINDS))
def test_graphs_are_drawn_as_their_kind_says(name: str) -> None:
    kind = claims_transfer.KINDS[name]
    kind = claims_transfer.Kind(min(kind.nodes, 600), kind.degree, kind.mixing, kind.topology)
    graph = claims_transfer.draw_graph(kind, 3)
    assert graph.num_nodes == kind.nodes
    assert graph.operator().symmetric
    degree = graph.edge_index.shape[1] / kind.nodes
    assert 0.7 * kind.degree < degree <= 1.1 * kind.degree
    source, target = graph.edge_index
    same = (graph.y[source] == graph.y[target]).double().mean().item()
    assert same == pytest.approx(1 - kind.mixing, abs=0.06) or kind.topology != "blocks"
    assert torch.equal(graph.x, claims_transfer.draw_graph(kind, 3).x)
    assert not torch.equal(graph.x, claims_transfer.draw_graph(kind, 4).x)
    if kind.topology == "hubs":
        assert torch.bincount(source).max() > 5 * degree


def test_small_measurements_of_every_claim() -> None:
    """Two runs of a few epochs: rows for every level, run and metric, and a picture."""
    depth = [row for m in ("arma", "gcn") for t in (1, 3) for row in claims_depth.measure_depth(m, t, 2, epochs=2)]
    assert {(row.method, row.level, row.run, row.metric) for row in depth} == {
        (m, t, run, metric)
        for m in ("arma", "gcn") for t in ("1", "3") for run in (0, 1) for metric in claims_depth.METRICS
    }  # fmt: skip
    norms = claims_stacks.measure_norms(2, epochs=20)
    levels, mean, _ = line_of(norms, "largest norm", "arma", "layer 1, L2 0.0005")
    assert levels == ["10"]  # the last look comes after the end
    assert mean[0] > 1  # Glorot's W starts with a norm of nearly 2, and decays slowly
    home = claims_transfer.measure_kind("gcn", "home", 2, epochs=20)
    assert {row.level for row in home} == set(claims_transfer.KINDS)
    assert all(row.value > 30 for row in home)  # chance is 20
    native = claims_transfer.measure_kind("gcn", "degree 3", 1, epochs=2)
    assert [(row.variable, row.level) for row in native] == [("trained on degree 3", "degree 3")]
    for draw, rows in ((claims_depth.draw, depth), (claims_stacks.draw_norms, norms)):
        assert picture(draw(rows)).startswith(b"\x89PNG")


@pytest.mark.parametrize("name", list(claims.CLAIMS))
def test_committed_rows_are_complete_and_drawn_by_the_command(name: str, tmp_path: Path) -> None:
    path = COMMITTED / f"{name}.csv"
    assert path.exists(), "measure it: armagnn figure claims"
    rows = read_rows(path)
    assert all(job.done(rows, claims.RUNS) for job in claims.claim(name).jobs())
    arguments = ["figure", "claims", name, "--results", str(COMMITTED), "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert claims.claim(name).question[:20] in result.output
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert path.read_text() == to_csv(rows)  # looked at, not touched
