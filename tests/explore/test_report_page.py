"""The report of a run: what it says is true, it is whole HTML, and nothing of the user's becomes markup."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from armagnn.data import NodeDataset
from armagnn.errors import ArmagnnError, RunError
from armagnn.explore.report_page import run_report
from armagnn.training import GraphsConfig, NodesConfig, Run, SignalsConfig, train
from data.tables.small_tables import people, write_people
from explore.browser import chromium
from tiny_signals import tiny

EVIL = '<img src=x onerror="alert(1)">&\u202e'
QUICK: dict[str, Any] = {"hidden": 8, "epochs": 12, "seeds": 2}
VOID = ("meta", "link", "img", "br", "circle", "rect", "path")


class Whole(HTMLParser):
    """Checks that elements are closed in order, and gathers what they are called and say."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(page: str) -> Whole:
    found = Whole()
    found.feed(page)
    found.close()
    assert found.open == []
    return found


def sections(page: str) -> list[str]:
    return re.findall(r'<section id="([a-z]+)"', page)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("people")
    count = len(people()[0]["id"])
    labels: list[Any] = [(EVIL, "red")[place % 2] for place in range(count)]
    labels[-9:] = [None] * 9
    nodes, edges = write_people(folder, label=labels)
    config = NodesConfig.for_tables(nodes=str(nodes), edges=str(edges), target="label", ignore="income", **QUICK)
    return train(config, folder / "run")


@pytest.fixture(scope="module")
def page(trained: Run) -> str:
    return run_report(trained)


def test_it_has_all_parts_and_they_are_linked(page: str) -> None:
    parts = ["graph", "data", "curves", "mistakes", "calibration", "doubts", "responses", "again"]
    assert sections(page) == parts
    found = read(page)
    links = [attrs["href"] for tag, attrs in found.seen if tag == "a"]
    ids = {attrs.get("id") for _, attrs in found.seen}
    assert links[1:] == [f"#{part}" for part in parts]
    assert all(link is not None and link[1:] in ids for link in links)


def test_it_needs_no_network_and_no_script(page: str) -> None:
    found = read(page)
    assert not {tag for tag, _ in found.seen} & {"script", "img", "iframe", "object", "form"}
    assert not re.search(r"(?:https?:)?//[a-z]", page)
    assert not [name for _, attrs in found.seen for name in attrs if name.startswith("on")]


def test_pictures_have_words(page: str) -> None:
    found = read(page)
    ids = {attrs["id"] for _, attrs in found.seen if "id" in attrs}
    pictures = [attrs for tag, attrs in found.seen if tag == "svg"]
    assert len(pictures) >= 8
    for attrs in pictures:
        assert attrs["role"] == "img"
        assert set((attrs["aria-labelledby"] or "").split()) <= ids
    assert len(ids) == sum("id" in attrs for _, attrs in found.seen)  # each once


def test_nothing_of_the_user_is_markup(page: str) -> None:
    assert "<img" not in page
    assert "&lt;img src=x onerror=" in page
    assert "\u202e" not in page


def test_its_numbers_are_those_of_the_run(trained: Run, page: str) -> None:
    text = read(page).text
    accuracy = trained.metrics()["test"]["accuracy"]
    assert f"{100 * accuracy['mean']:.1f}" in text
    alone = trained.baselines()["mlp"]["test"]["accuracy"]
    assert f"{100 * alone['mean']:.1f} ± {100 * alone['std']:.1f} %" in text
    assert "armagnn train nodes --nodes" in text


def test_without_its_data_it_has_what_the_run_has(trained: Run, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(trained.path.parent, copy)
    moved = Run.open(copy / "run")
    Path(moved.config.nodes).rename(tmp_path / "hidden")  # type: ignore[attr-defined]
    try:
        page = run_report(moved)
    finally:
        (tmp_path / "hidden").rename(moved.config.nodes)  # type: ignore[attr-defined]
    assert sections(page) == ["graph", "data", "curves", "again"]
    assert "could not be read" in page


def test_numbers(tmp_path: Path) -> None:
    nodes, edges = write_people(tmp_path)
    config = NodesConfig.for_tables(nodes=str(nodes), edges=str(edges), target="income", ignore="label", **QUICK)
    page = run_report(train(config, tmp_path / "run"), responses=False)
    assert sections(page) == ["graph", "data", "curves", "mistakes", "doubts", "again"]
    assert "income: predicted over true" in read(page).text
    one = train(replace(config, seeds=1), tmp_path / "one")
    assert "doubts" not in sections(run_report(one, responses=False))


def test_several_labels(tmp_path: Path) -> None:
    count = len(people()[0]["id"])
    nodes, edges = write_people(tmp_path, label=[("a|b", "b", "a|c", "c")[i % 4] for i in range(count)])
    config = NodesConfig.for_tables(nodes=str(nodes), edges=str(edges), target="label", ignore="income", **QUICK)
    page = run_report(train(config, tmp_path / "run"), responses=False)
    assert "Labels on the test" in page
    read(page)


def test_graphs_and_signals(tmp_path: Path) -> None:
    run = train(GraphsConfig(data="mutag", hidden=4, epochs=2, seeds=1), tmp_path / "graphs")
    page = run_report(run)
    assert sections(page) == ["data", "curves", "mistakes", "calibration", "doubts", "responses", "again"]
    assert "The test has 19 graphs" in page
    data = tiny()
    signals = train(SignalsConfig(widths="4", epochs=2, seeds=1, features="table"), tmp_path / "signals", data=data)
    page = run_report(signals, data)
    assert sections(page) == ["data", "curves", "mistakes", "calibration", "doubts", "again"]
    read(page)


def test_data_in_memory(tmp_path: Path) -> None:
    data = NodeDataset.from_tables(*people(), "label", ignore="income")
    run = train(data, tmp_path / "run", **QUICK)
    page = run_report(run, data)
    assert "armagnn train" not in page.split('id="again"')[1].split("<h3>")[0]
    assert "mistakes" in sections(page)
    assert "could not be read" in run_report(run)
    other = NodeDataset.from_tables(*people(seed=1), "label", ignore="income")
    with pytest.raises(ArmagnnError):
        run_report(run, other)


def test_what_is_no_finished_run_is_refused(trained: Run, tmp_path: Path) -> None:
    half = tmp_path / "half"
    Run.create(half, trained.config, "0" * 64, trained.description())
    with pytest.raises(RunError, match="Continue with"):
        run_report(Run.open(half))


def test_tab_reaches_everything_in_order_and_shows_where_it_is(page: str) -> None:
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 900, "height": 700})
        tab.set_content(page)
        wanted = tab.locator("a:visible, [tabindex='0']:visible").count()
        seen: list[dict[str, Any]] = []
        while len(seen) <= wanted:
            tab.keyboard.press("Tab")
            where = tab.evaluate(
                """() => {
                    const here = document.activeElement, style = getComputedStyle(here);
                    if (here === document.body) return null;
                    return {
                        place: here.getBoundingClientRect().top + scrollY,
                        name: here.ariaLabel || here.textContent.trim(),
                        outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
                    };
                }"""
            )
            if where is None:
                break
            seen.append(where)
        assert len(seen) >= wanted - 1  # the link that skips the head is hidden until it has the focus
        assert all(each["outline"] >= 2 and each["name"] for each in seen)
        places = [each["place"] for each in seen[1:]]
        assert places == sorted(places)
