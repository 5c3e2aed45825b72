"""What the site has beyond Sphinx: formulas as MathML, the explorer's page, help of commands, small inventories."""

from __future__ import annotations

import inspect
import re
import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.ext import autosummary
from sphinx.ext.autosummary import extract_summary
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

EXPLORER = "_static/explorer.html"
BIG = re.compile(r"\\(big|Big|bigg|Bigg)(?=(\\[a-zA-Z]+|[^a-zA-Z]))")  # of unknown side, which MathML wants to know
ACCENT = re.compile(r"\\(bar|tilde|hat|vec|dot|overline) *(\\[a-zA-Z]+|\{[^{}]*\}|[a-zA-Z])(?= *[_^])")
RIGHT = (")", "]", r"\rangle", r"\rvert", r"\rVert")


def inventory(names: Path, folder: Path) -> str:
    """Write the inventory that a text file lists, a name, its kind and its page on each line; return its path."""
    text = names.read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    entries = "".join(f"{name} py:{kind} 1 {page} -\n" for name, kind, page in lines)
    head = f"# Sphinx inventory version 2\n# Project: {names.stem}\n# Version: \n"
    head += "# The remainder of this file is compressed using zlib.\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{names.stem}.inv"
    path.write_bytes(head.encode() + zlib.compress(entries.encode()))
    return str(path)


def before_example(conf: dict[str, Any], name: str) -> None:
    """Before each example of the gallery: the same randomness and style of pictures, no progress bar."""
    import torch
    from matplotlib import pyplot

    torch.manual_seed(0)
    pyplot.rcdefaults()
    pyplot.rcParams.update({"figure.dpi": 110, "figure.constrained_layout.use": True, "figure.figsize": (7, 3.6)})


# ------------------------------------------------------------------------------------------------------------- formulas


def mathml(latex: str, block: bool) -> str:
    """Return a formula as MathML, which every browser shows without a script."""
    latex = latex.replace(r"\dots", r"\ldots")
    latex = ACCENT.sub(r"\g<0>{}", latex)  # otherwise the index of a letter with an accent stands under it
    latex = BIG.sub(lambda found: found[0] + ("r" if found[2] in RIGHT else "l"), latex)
    if block and r"\\" in latex:  # several lines
        latex = rf"\begin{{align}}{latex}\end{{align}}"
    try:
        return str(tex2mathml(latex, as_block=block))
    except MathError as error:  # a warning, which ends `make docs`, with the formula in it
        logging.getLogger(__name__).warning("the formula %r cannot be written as MathML: %s", latex, error)
        return ""


def visit_math(self: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(f'<span class="math">{mathml(node.astext(), False)}</span>')
    raise nodes.SkipNode


def visit_math_block(self: Any, node: nodes.math_block) -> None:
    """Write a formula of its own line."""
    self.body.append(f'<div class="math">{mathml(node.astext(), True)}</div>')
    raise nodes.SkipNode


class Bars(SphinxTransform):
    """``|a|`` is the size of a, not the name of a substitution."""

    default_priority = 200  # before docutils looks for substitutions

    def apply(self, **kwargs: Any) -> None:
        """Put the text back."""
        for node in list(self.document.findall(nodes.substitution_reference)):
            node.replace_self(nodes.Text(f"|{node.astext()}|"))


# --------------------------------------------------------------------------------------------------------- wide parts

SHORT = re.compile(r"<td><p>((?:<strong>)?(?:[^<]{1,14}|[-\d .,×()+=±/%−–]{1,40})(?:</strong>)?)</p></td>")

CELL, TAG, LONG = re.compile(r"<td>(<p>.*?)</td>", re.DOTALL), re.compile(r"<[^>]*>"), 60


def mend_wide_parts(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Let Tab reach code and tables that may be wider than the page, to scroll them by keys; keep columns readable."""
    body = str(context.get("body", "")).replace("<pre>", '<pre tabindex="0">')
    body = body.replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
    body = SHORT.sub(r'<td class="short"><p>\1</p></td>', body)
    context["body"] = CELL.sub(lambda cell: f"<td{_long(cell[1])}>{cell[1]}</td>", body)


def _long(cell: str) -> str:
    return ' class="long"' if len(TAG.sub("", cell)) >= LONG else ""


# ------------------------------------------------------------------------------------------------------------- explorer


def write_explorer(app: Sphinx, error: Exception | None) -> None:
    """Put the explorer's single file into the site, as `armagnn explore --html` writes it."""
    if error is None and app.builder.format == "html":
        from armagnn.explore import explorer_page

        (Path(app.outdir) / EXPLORER).write_text(explorer_page(), encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- commands


class CommandHelp(SphinxDirective):
    """``{command-help} train nodes``: what ``armagnn train nodes --help`` prints."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[nodes.Node]:
        """Run the command's help and show it as it is printed."""
        from typer.testing import CliRunner

        from armagnn.cli import app

        words = self.arguments[0].strip(".").split()
        result = CliRunner().invoke(
            app, [*words, "--help"], prog_name="armagnn", env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
        )
        if result.exit_code:
            raise self.error(f"armagnn {self.arguments[0]} --help fails: {result.output}")
        text = "\n".join(line.rstrip() for line in result.output.strip().splitlines())
        return [nodes.literal_block(text, text, language="text")]


# ------------------------------------------------------------------------------------------------------------ reference


LETTER = re.compile(r"(^ *|: )([A-Z])\.$")


class Room(SphinxDirective):
    """``{room} armagnn.filters``: a table of the names that a room offers, and the documentation of each.

    The lines of its content name what is shown; without any it is all of ``__all__``, or every public class.
    """

    required_arguments, has_content = 1, True

    def run(self) -> list[nodes.Node]:
        """Write the directives of autosummary and autodoc and let Sphinx do the rest."""
        try:
            module = import_module(self.arguments[0])
        except ImportError as error:
            raise self.error(f"{error}: mend the page that names it.") from error
        own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        names = list(self.content) or getattr(module, "__all__", None) or [n for n in own if n[0].isupper()]
        names = [name for name in names if callable(getattr(module, name))]  # constants have no docstring
        lines = [f".. currentmodule:: {module.__name__}", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names] + [""]
        for name in names:
            value = getattr(module, name)
            kind = "class" if inspect.isclass(value) else "function"
            kind = "exception" if kind == "class" and issubclass(value, BaseException) else kind
            lines += [f".. auto{kind}:: {name}", *(["   :members:"] if kind == "class" else []), ""]
        return self.parse_text_to_nodes("\n".join(["```{eval-rst}", *lines, "```"]))


def keep_letters(app: Sphinx, kind: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """A description such as ``K.`` is a letter, not the beginning of a list."""
    lines[:] = [LETTER.sub(r"\1\2\.", line) for line in lines]


def summary(lines: Sequence[str], settings: Any) -> str:
    """The first sentence of a docstring for a table: "Eq." does not end it, and a comma or a colon is not its end."""
    sentence = re.sub(r"[\s,:.]+$", "", extract_summary(lines, settings))
    return sentence if sentence.endswith(("?", "!")) else f"{sentence}."


def skip_member(app: Sphinx, kind: str, name: str, value: object, skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn adds to every estimator, whose docstrings are written for its own site."""
    return True if name.endswith("_request") and "RequestMethod" in getattr(value, "__qualname__", "") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx what is here."""
    autosummary.WELL_KNOWN_ABBREVIATIONS += ("(Eq.", "(Eqs.", " Eq.", " Eqs.")
    autosummary.extract_summary = summary
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.add_transform(Bars)
    app.add_directive("room", Room)
    app.add_directive("command-help", CommandHelp)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-docstring", keep_letters, priority=900)  # after napoleon
    app.connect("html-page-context", mend_wide_parts)
    app.connect("build-finished", write_explorer)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
