"""The explorer as one HTML file: responses of ARMA filters to move, which opens without a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from armagnn.checks import instance
from armagnn.explore.explorer_content import filter_content, graph_contents, run_content
from armagnn.filters import ARMAFilter
from armagnn.operators import GraphOperator
from armagnn.training.run_folder import Run

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>body {{ margin: 0; }}</style>
</head>
<body>
<main id="explorer"><noscript>The explorer needs JavaScript.</noscript></main>
<script type="application/json" id="content">{content}</script>
<script>{script}</script>
</body>
</html>
"""
_START = (
    'armagnnExplorer.mount(document.getElementById("explorer"), '
    'JSON.parse(document.getElementById("content").textContent));'
)


def explorer_page(
    filter: ARMAFilter | None = None,
    *,
    graphs: Mapping[str, tuple[GraphOperator, Any, Any]] | None = None,
    run: Run | None = None,
    title: str = "ARMA explorer",
) -> str:
    """Return the explorer as the text of one HTML file, which opens by a double click and asks for nothing outside.

    Args:
        filter: what to start with; a low-pass filter of order 4 if not given.
        graphs: graphs of yours for the signal view: a name, and (operator, signal (N), places (N, 2)).
        run: a finished run, for the run view; see `armagnn.training.Run.open`.
        title: the title of the page.

    Example:
        >>> page = explorer_page(ARMAFilter(a=[0.9], b=[0.1]))
        >>> page[:15], "http://" in page.replace("http://www.w3.org", "")
        ('<!doctype html>', False)
    """
    return whole_page(explorer_content(filter, graphs, run), title)


def explorer_content(
    filter: ARMAFilter | None, graphs: Mapping[str, tuple[GraphOperator, Any, Any]] | None, run: Run | None
) -> dict[str, Any]:
    """Return what an explorer starts with."""
    content = {**filter_content(filter), "graphs": graph_contents(graphs or {}) + known_graphs()}
    if run is not None:
        content["run"] = run_content(instance("run", run, Run, "a Run"))
    return content


def whole_page(content: Mapping[str, Any], title: str) -> str:
    """Return the page of an explorer with this content."""
    script = f"{bundle()}\n{_START}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # the page can run its own script and nothing else, and has no way to ask for anything
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    return _PAGE.format(
        policy=policy,
        title=_escaped(title),
        content=json.dumps({**content, "page": True}, allow_nan=False).replace("<", "\\u003c"),
        script=script,
    )


def known_graphs() -> list[dict[str, Any]]:
    """Return the graphs of the signal view: a photograph, a sensor network, Cora."""
    graphs: list[dict[str, Any]] = json.loads(_static("graphs.json"))
    return graphs


def bundle() -> str:
    """Return the script of the explorer, built from ``explore/`` by esbuild."""
    return _static("explorer.js").strip()


def _static(name: str) -> str:
    return files("armagnn.explore").joinpath("static", name).read_text(encoding="utf-8")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
