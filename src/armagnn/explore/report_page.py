"""The report of a finished run as one HTML file, to be mailed: it opens without a network and without JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

from armagnn.arguments import checked
from armagnn.errors import ArmagnnError, ParameterError
from armagnn.explore.report_judgement import calibration_part, doubts_part, mistakes_part
from armagnn.explore.report_parts import (
    baselines_part,
    curves_part,
    data_part,
    responses_part,
    settings_part,
    summary,
    tiles,
)
from armagnn.explore.run_facts import Judgement, judgement, train_command
from armagnn.explore.svg_charts import escaped
from armagnn.training.run_folder import Run

MOST_NODES: Final = 4000
"""Of a graph whose learned responses are shown unless one asks: its eigenvectors take seconds, not minutes."""

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#content">Skip to the results</a>
<header>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{tiles}
<nav aria-label="Parts of this report"><ul>{links}</ul></nav>
</header>
<main id="content" tabindex="-1">
{sections}
</main>
<footer>Made by armagnn {version}. This file needs no network and holds no scripts.</footer>
</body>
</html>
"""


@checked
def run_report(run: Run, data: Any = None, *, responses: bool | None = None, folder: str = "") -> str:
    """Return the report of a finished run as the text of one HTML file.

    Parts for which the run has nothing are left out; where the data cannot be loaded, the report says so and has what
    the run folder alone has.

    Args:
        run: the finished run.
        data: its dataset, if that was in memory; by default the configuration loads it.
        responses: show what every stack does to the spectrum (Eq. 20)? By default of graphs with at most 4000 nodes,
            because it takes all eigenvectors.
        folder: what the command that makes the run again names as its folder; that of the run if not given.

    Example:
        >>> page = run_report(Run.open("runs/mine"))  # doctest: +SKIP
        >>> Path("report.html").write_text(page)  # doctest: +SKIP
    """
    metrics, trials, baselines = run.metrics(), run.trials(), run.baselines()
    config = run.config
    judged: Judgement | None = None
    dataset, missing = None, ""
    try:
        experiment = config.experiment(data)
        run.check_data(experiment.sha256)
        dataset, judged = experiment.dataset, judgement(run, experiment)
    except (ArmagnnError, OSError) as error:
        if data is not None:
            raise
        missing = str(error)
    parts = [
        baselines_part(config, metrics, baselines),
        data_part(config, dataset, judged, missing),
        curves_part(trials),
    ]
    if judged is not None:
        parts += [mistakes_part(judged, config.kind), calibration_part(judged), doubts_part(judged, config.kind)]
    if dataset is not None:
        parts.append(responses_part(run, dataset, responses, MOST_NODES, data))
    parts.append(settings_part(run, train_command(config, folder or str(run.path))))
    return _page(config.title, summary(run, metrics), tiles(run, metrics), [part for part in parts if part is not None])


def _page(title: str, lead: str, tiles: str, parts: Sequence[tuple[str, str, str]]) -> str:
    import armagnn

    for name, _, _ in parts:
        if not name.replace("-", "").isalnum():
            raise ParameterError(f"a part must have a plain name, got {name!r}.")
    style = files("armagnn.explore").joinpath("static", "report.css").read_text(encoding="utf-8")
    links = "".join(f'<li><a href="#{name}">{escaped(heading)}</a></li>' for name, heading, _ in parts)
    sections = "\n".join(
        f'<section id="{name}" aria-labelledby="{name}-head"><h2 id="{name}-head">{escaped(heading)}</h2>'
        f"{body}</section>"
        for name, heading, body in parts
    )
    return _PAGE.format(
        title=escaped(title), style=style, lead=lead, tiles=tiles, links=links, sections=sections,
        version=armagnn.__version__,
    )  # fmt: skip
