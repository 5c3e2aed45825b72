"""The explorer in a real browser: opened as a file, moved, typed into, designed with, exported from."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from armagnn import GraphOperator
from armagnn.errors import DTypeError
from armagnn.explore.explorer_content import layer_contents
from armagnn.explore.explorer_page import explorer_page, known_graphs, whole_page
from armagnn.explore.learned import Subject
from armagnn.filters import ARMAFilter
from armagnn.nn import ARMAConv, RationalConv
from armagnn.operators.neighbours import knn_graph
from armagnn.solvers import FixedPoint
from corner_of_cora import corner_of_cora
from explore.browser import PACKAGES, chromium

OUTSIDE = re.compile(r"^(?!file:|data:|blob:|about:)")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("explorer") / "page.html"
    path.write_text(explorer_page(), encoding="utf-8")
    return path.as_uri()


class Watched:
    """A page, with what it said on the console and asked of the network."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(15_000)
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.context.on("request", lambda request: OUTSIDE.match(request.url) and self.said.append(request.url))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def frame(self) -> None:
        """Wait until what was changed is drawn."""
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def filter(self) -> ARMAFilter:
        """The filter of the Python line."""
        text = self.page.get_by_label("Python", exact=True).inner_text()
        names: dict[str, Any] = {}
        exec(text, names)
        found = names["f"]
        assert isinstance(found, ARMAFilter)
        return found

    def curve(self, title: str = "Response", column: str = "ARMA, exact") -> np.ndarray[Any, Any]:
        """A column of the table behind a plot, and its first column, λ."""
        figure = self.page.locator("figure", has=self.page.get_by_role("heading", name=title, exact=True))
        if figure.locator("details[open]").count() == 0:
            figure.locator("summary").click()
            figure.locator("table").wait_for()
        self.frame()
        cells: list[list[str]] = figure.locator("table").evaluate(
            "(table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        place = cells[0].index(column)
        return np.array([[_number(row[k]) for k in (0, place)] for row in cells[1:]])


def _number(text: str) -> float:
    return float(text.translate({ord("−"): "-", ord("–"): "nan"}))


@pytest.fixture
def page(browser: Any, file: str) -> Iterator[Watched]:
    watched = Watched(browser, accept_downloads=True)
    watched.goto(file)
    yield watched
    watched.context.close()
    assert watched.said == []


def pole(page: Watched, number: int) -> Any:
    return page.get_by_role("slider", name=re.compile(f"Pole of (pair|term) {number}"))


def test_the_file_opens_and_shows_what_python_computes(page: Watched) -> None:
    assert page.get_by_role("heading", name="ARMA explorer").is_visible()
    shown, filter = page.curve(), page.filter()
    np.testing.assert_allclose(shown[:, 1], filter.response(1 - shown[:, 0]), atol=2e-3)


def test_a_dragged_pole_moves_the_curve(page: Watched) -> None:
    before, old = page.curve(), page.filter()
    box = pole(page, 1).locator(".mark").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 40, y - 30, steps=5)
    page.mouse.up()
    after, new = page.curve(), page.filter()
    moved = 1 / new.a[0] - 1 / old.a[0]
    assert moved.real < -0.1  # to the right is to higher lambda, and so to smaller mu
    assert abs(moved.imag) > 0.1
    assert np.abs(after - before).max() > 0.01
    np.testing.assert_allclose(after[:, 1], new.response(1 - after[:, 0]), atol=2e-3)
    page.get_by_role("button", name="Undo").click()
    page.frame()
    assert page.filter().a.tolist() == old.a.tolist()


def test_keys_move_a_pole(page: Watched) -> None:
    old = page.filter()
    pole(page, 2).focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    page.frame()
    moved = 1 / page.filter().a[2].conj() - 1 / old.a[2].conj()
    assert complex(moved) == pytest.approx(complex(-0.01, 0.02), abs=1e-9)
    assert "lambda" in pole(page, 2).get_attribute("aria-valuetext")


def test_a_typed_value_counts_in_full(page: Watched) -> None:
    field = page.get_by_label("Real part of b of pair 1")
    field.fill("0.123456789012")
    field.press("Enter")
    page.frame()
    assert float(page.filter().b[0].real) == 0.123456789012
    field.fill("")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert float(page.filter().b[0].real) == 0.123456789012


@pytest.mark.parametrize("stable", [False, True], ids=["free", "stable"])
def test_design_finds_poles(page: Watched, stable: bool) -> None:
    page.get_by_label("Target", exact=True).select_option("band-pass")
    page.get_by_label("stable").set_checked(stable)
    page.get_by_label("K", exact=True).fill("3")
    page.get_by_label("K", exact=True).press("Enter")
    page.get_by_text(re.compile("Designed K = 3")).wait_for()
    page.frame()  # what is drawn follows what is said
    filter, report = page.filter(), ARMAFilter.design("band-pass", 3, stable).report
    assert filter.order == 3
    assert not stable or float(filter.a.abs().max()) < 1
    said = re.search(r"RMS error ([\d.]+\d)", page.get_by_text(re.compile("Designed K = 3")).inner_text())
    assert said is not None
    assert report is not None
    assert float(said[1]) == pytest.approx(report.rms, abs=2e-4)


def test_a_target_is_drawn_with_the_mouse_or_typed(page: Watched) -> None:
    page.get_by_role("button", name="Draw").click()
    plot = page.locator("svg.plot").first
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 60, steps=6)
    page.mouse.up()
    drawn = page.curve(column="target")
    at = drawn[(drawn[:, 0] > 0.7) & (drawn[:, 0] < 1.7), 1]
    assert (np.diff(at) > 0).all()
    points = page.get_by_label("Points λ h of the target")
    points.fill("0 1, 1 0.25, 2 0")
    points.press("Enter")
    typed = page.curve(column="target")
    np.testing.assert_allclose(typed[:, 1], np.interp(typed[:, 0], [0, 1, 2], [1, 0.25, 0]), atol=2e-3)
    points.fill("0 1, x 2")
    points.press("Enter")
    assert "is no point" in page.get_by_role("alert").inner_text()


def test_residues_follow_the_poles_where_asked(page: Watched) -> None:
    page.get_by_label("best b").check()
    pole(page, 1).focus()
    page.keyboard.press("Shift+ArrowRight")
    page.frame()
    filter = page.filter()
    mu = np.linspace(-1, 1, 2001)[:-1] + 5e-4
    columns = 1 / (1 - mu[:, None] * filter.a.numpy()[::2])
    basis = np.concatenate([2 * columns.real, -2 * columns.imag], 1)
    best = np.linalg.lstsq(basis, (mu >= 0).astype(float), rcond=None)[0]
    np.testing.assert_allclose(basis @ best, filter.response(mu), atol=1e-6)


def test_steps_of_the_recursion_are_drawn(page: Watched) -> None:
    page.get_by_label("Examples").select_option("Figure 2: a = 0.7, b = 0.15")
    page.get_by_label("Steps T").fill("2")
    shown = page.curve(column="recursion, T = 2")
    mu = 1 - shown[:, 0]
    np.testing.assert_allclose(shown[:, 1], 0.15 * (1 + 0.7 * mu + (0.7 * mu) ** 2), atol=1e-3)
    assert page.get_by_text("recursion − exact, T = 2").is_visible()


def test_plots_are_saved_as_png_and_svg(page: Watched) -> None:
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save “Response” as SVG").click()
    picture = ET.fromstring(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert saved.value.suggested_filename == "armagnn-response.svg"
    assert len(picture.findall(".//{http://www.w3.org/2000/svg}path")) > 3
    assert "var(--" not in ET.tostring(picture, encoding="unicode")
    for title in ("Response", "Poles 1 / a"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Save “{title}” as PNG").click()
        content = Path(saved.value.path()).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 5000


def test_curves_can_be_hidden_and_colours_changed(page: Watched) -> None:
    page.get_by_role("button", name="Chebyshev, 8 coefficients").click()
    with pytest.raises(ValueError, match="is not in list"):
        page.curve(column="Chebyshev, 8 coefficients")
    root = page.locator(".armagnn-explorer")
    for theme in ("light", "dark"):
        page.get_by_role("button", name=re.compile("Colours")).click()
        assert ("dark" in root.get_attribute("class")) == (theme == "dark")


@pytest.mark.parametrize(
    "look",
    [{}, {"color_scheme": "dark", "viewport": {"width": 390, "height": 844}, "has_touch": True}],
    ids=["wide-light", "phone-dark"],
)
def test_axe_finds_nothing(browser: Any, run_page: str, look: dict[str, Any]) -> None:
    script = PACKAGES / "axe-core" / "axe.min.js"
    if not script.is_file():
        pytest.skip("explore/node_modules has no axe-core: `make test` installs it where npm has a network")
    options = {"viewport": {"width": 1280, "height": 900}} | look
    context = browser.new_context(**options)
    page = context.new_page()
    page.goto(run_page)
    page.evaluate(script.read_text(encoding="utf-8"))
    for view in page.get_by_role("tab").all():
        view.click()
        for summary in page.locator("summary:visible").all():
            summary.click()
        found = page.evaluate("axe.run().then((result) => result.violations)")
        assert [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@pytest.fixture(scope="module")
def layers() -> list[dict[str, Any]]:
    """What two layers do, one of which converges."""
    cora = corner_of_cora()
    found = [
        ("conv1", ARMAConv(cora.num_features, 4, num_stacks=2, fixed_point=FixedPoint())),
        ("conv2", RationalConv(4, 3, order=3)),
    ]
    return layer_contents(Subject(found, cora.x, cora.edge_index, cora.num_nodes))


@pytest.fixture(scope="module")
def run_page(layers: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> str:
    run = {"title": "two layers", "facts": [["data", "a corner of Cora"]], "layers": layers}
    path = tmp_path_factory.mktemp("explorer") / "run.html"
    path.write_text(whole_page({"run": run, "graphs": known_graphs()}, "run"), encoding="utf-8")
    return path.as_uri()


def test_a_run_is_shown_and_a_response_becomes_a_target(
    browser: Any, layers: list[dict[str, Any]], run_page: str
) -> None:
    page = Watched(browser)
    page.goto(run_page)
    assert page.get_by_role("tab", name="Run").get_attribute("aria-selected") == "true"
    for title in ("conv1, stack 1", "conv1, stack 2", "conv1, output", "conv1, energy per band", "conv2, output"):
        assert page.get_by_role("heading", name=title, exact=True).is_visible()
    assert "below 1: every stack converges" in page.get_by_role("region", name="conv1", exact=True).inner_text()
    residuals = page.curve("conv1, residuals", "stack 1")
    assert residuals[-1, 1] < residuals[0, 1]
    page.get_by_role("button", name="Use the response of conv1, stack 2 as target").click()
    target = page.curve(column="target")
    stack = layers[0]["stacks"][1]
    learned = [pair for pair in zip(stack["lambda"], stack["response"], strict=True) if pair[1] is not None]
    wanted = np.interp(target[:, 0], *np.array(sorted(learned)).T)
    np.testing.assert_allclose(target[:, 1], wanted, atol=1e-2 * np.abs(wanted).max())
    page.get_by_role("tab", name="Run").click()
    page.get_by_role("button", name="Open its filter").click()
    page.frame()
    shown = page.filter()
    assert torch.view_as_real(shown.a).tolist() == layers[1]["filter"]["a"]
    page.context.close()
    assert page.said == []


def test_a_page_starts_with_the_filter_it_is_given(browser: Any, tmp_path: Path) -> None:
    filter = ARMAFilter([0.5 + 0.5j, 0.5 - 0.5j, 0.3], [1 + 2j, 1 - 2j, 0.25])
    path = tmp_path / "p.html"
    path.write_text(explorer_page(filter, title="</title><b>"), encoding="utf-8")
    watched = Watched(browser)
    watched.goto(path.as_uri())
    assert watched.title() == "</title><b>"
    found = watched.filter()
    assert (found.a.tolist(), found.b.tolist()) == (filter.a.tolist(), filter.b.tolist())
    watched.context.close()
    assert watched.said == []


def test_the_views_are_switched_and_a_signal_is_filtered(page: Watched) -> None:
    page.get_by_role("tab", name="Signal").click()
    assert page.get_by_role("tabpanel", name="Signal").is_visible()
    assert not page.get_by_role("tabpanel", name="Filter").is_visible()
    page.get_by_label("Graph", exact=True).select_option("a sensor network")
    page.get_by_label("add noise").check()
    row = page.get_by_role("row", name=re.compile("RMS error against the clean signal"))
    row.wait_for()
    noisy, filtered = (float(cell) for cell in row.get_by_role("cell").all_inner_texts())
    assert noisy == pytest.approx(150, rel=0.15)
    assert filtered < noisy
    for kind in ("PNG", "SVG"):
        with page.expect_download() as saved:
            page.get_by_role("button", name=f"Save “Filtered” as {kind}").click()
        assert saved.value.suggested_filename == f"armagnn-filtered.{kind.lower()}"
    assert ET.fromstring(Path(saved.value.path()).read_text(encoding="utf-8")).tag.endswith("svg")
    page.keyboard.press("Home")
    page.get_by_role("tab", name="Signal").focus()
    page.keyboard.press("ArrowLeft")
    assert page.get_by_role("tabpanel", name="Filter").is_visible()


def test_the_signal_view_shows_the_filter_that_was_made_elsewhere(page: Watched) -> None:
    page.get_by_role("tab", name="Signal").click()
    page.get_by_role("tab", name="Filter").click()
    page.get_by_label("Examples").select_option("Figure 2: a = 0.7, b = 0.15")
    page.frame()
    page.get_by_role("tab", name="Signal").click()
    shown = page.curve()
    np.testing.assert_allclose(shown[:, 1], 0.15 / (1 - 0.7 * (1 - shown[:, 0])), atol=1e-3)


def test_nothing_sticks_out_of_its_card(page: Watched) -> None:
    for width in (1280, 1000, 700, 390):
        page.set_viewport_size({"width": width, "height": 900})
        wide = page.evaluate(
            "[...document.querySelectorAll('.card')].filter((card) => card.scrollWidth > card.clientWidth + 1)"
            ".filter((card) => getComputedStyle(card).overflowX === 'visible').map((card) => card.innerText)"
        )
        assert wide == []


def test_own_graphs_are_shown(browser: Any, tmp_path: Path) -> None:
    """The energy of the filtered signal, of an operator with weights, is that of `ARMAFilter.filter`."""
    points = torch.rand(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    edges, weights = knn_graph(points, 4, "gaussian")
    op = GraphOperator.from_edge_index(edges, 60, weights, dtype=torch.float64)
    x = points[:, 0] + 0.1 * torch.randn(60, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    filter = ARMAFilter([0.9], [0.1])
    path = tmp_path / "p.html"
    path.write_text(explorer_page(filter, graphs={"mine": (op, x, points)}), encoding="utf-8")
    watched = Watched(browser)
    watched.goto(path.as_uri())
    watched.get_by_role("tab", name="Signal").click()
    watched.get_by_role("row", name=re.compile("energy")).wait_for()
    assert watched.get_by_label("Graph", exact=True).input_value() == "0"
    cells = watched.get_by_role("row", name=re.compile("energy")).get_by_role("cell").all_inner_texts()
    truth = [float(signal.square().sum()) for signal in (x, filter.filter(op, x))]
    assert [float(cell) for cell in cells] == pytest.approx(truth, abs=2e-3)
    watched.context.close()
    assert watched.said == []


def test_what_is_no_filter_is_refused() -> None:
    with pytest.raises(DTypeError, match="ARMAFilter"):
        explorer_page("low-pass")  # type: ignore[arg-type]
