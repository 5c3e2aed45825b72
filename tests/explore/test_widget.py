"""The explorer in a notebook: the filter goes from Python to the browser and back."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

from armagnn.errors import DTypeError, UnsupportedError
from armagnn.explore import explorer_widget
from armagnn.explore.widget import _widget_class
from armagnn.filters import ARMAFilter
from explore.browser import chromium

PAIR = ARMAFilter([0.5 + 0.5j, 0.5 - 0.5j], [1 + 2j, 1 - 2j])


def test_the_filter_is_what_is_shown() -> None:
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    widget = explorer_widget(PAIR)
    assert (widget.filter.a.tolist(), widget.filter.b.tolist()) == (PAIR.a.tolist(), PAIR.b.tolist())
    widget.filter = ARMAFilter([0.5], [0.25])
    assert repr(widget.filter) == "ARMAFilter(a=[0.5], b=[0.25])"
    assert explorer_widget().filter.order == 4
    with pytest.raises(DTypeError, match="ARMAFilter"):
        widget.filter = "low-pass"


def test_without_anywidget_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any) -> Any:
        if name == "anywidget":
            raise ImportError(name)
        return real(name, *args)

    _widget_class.cache_clear()
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(UnsupportedError, match=r"armagnn\[widget\]"):
        explorer_widget(PAIR)


def test_a_notebook_s_filter_moves_both_ways() -> None:
    """A model as notebooks have it, with the script and the traits of the widget."""
    pytest.importorskip("anywidget", reason="anywidget is not installed")
    widget = explorer_widget(PAIR)
    traits = {"content": widget.content, "coefficients": widget.coefficients}
    with chromium() as browser:
        page = browser.new_page()
        said: list[str] = []
        page.on("pageerror", lambda error: said.append(str(error)))
        page.set_content("<div id=one></div><div id=two></div>")
        page.evaluate(
            """async ({ script, traits }) => {
                const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
                const listeners = [];
                window.saved = 0;
                window.model = {
                    get: (name) => traits[name],
                    set: (name, value) => { traits[name] = value; listeners.forEach((each) => each()); },
                    save_changes: () => { window.saved += 1; },
                    on: (event, listener) => listeners.push(listener),
                    off: () => {},
                };
                for (const name of ["one", "two"]) {
                    module.default.render({ model: window.model, el: document.getElementById(name) });
                }
            }""",
            {"script": widget._esm if isinstance(widget._esm, str) else str(widget._esm), "traits": traits},
        )
        one, two = (page.locator(f"#{name}").get_by_label("Real part of b of pair 1") for name in ("one", "two"))
        assert one.input_value() == "1"
        one.fill("0.75")
        one.press("Enter")
        assert page.evaluate("model.get('coefficients').b") == [[0.75, 2], [0.75, -2]]
        assert page.evaluate("saved") == 1
        page.wait_for_function("document.querySelector('#two [data-field=b0]').value === '0.75'")  # the other view
        page.evaluate("model.set('coefficients', { a: [[0.5, 0]], b: [[0.25, 0]] })")
        page.wait_for_function("document.querySelector('#two [data-field=b0]').value === '0.25'")
        assert two.count() == 0  # it is no pair now
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
        assert len(ids) == len(set(ids))
        assert said == []
