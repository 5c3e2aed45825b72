"""The explorer in a notebook: Jupyter, VS Code, marimo (``pip install armagnn[widget]``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from armagnn.checks import instance
from armagnn.errors import UnsupportedError
from armagnn.explore.explorer_content import filter_content
from armagnn.explore.explorer_page import bundle, explorer_content
from armagnn.filters import ARMAFilter
from armagnn.operators import GraphOperator
from armagnn.training.run_folder import Run


def explorer_widget(
    filter: ARMAFilter | None = None,
    *,
    graphs: Mapping[str, tuple[GraphOperator, Any, Any]] | None = None,
    run: Run | None = None,
) -> Any:
    """Return the explorer as a widget; arguments as of `explorer_page`.

    ``widget.filter`` is the filter that it shows, and may be set. It needs the extra ``widget``.

    Example:
        >>> widget = explorer_widget(ARMAFilter(a=[0.9], b=[0.1]))
        >>> widget.filter
        ARMAFilter(a=[0.9], b=[0.1])
        >>> widget.filter = ARMAFilter(a=[0.5], b=[0.5])
    """
    content = explorer_content(filter, graphs, run)
    # the first filter is not the page's but Python's, so that widget.filter is what is shown from the start
    first = filter_content(filter or ARMAFilter.design("low-pass", 4))
    return _widget_class()(content=content | first, coefficients=first)


@functools.cache
def _widget_class() -> Any:
    try:
        import anywidget
        import traitlets
    except ImportError as error:
        raise UnsupportedError("the widget needs anywidget: pip install 'armagnn[widget]'.") from error

    class Explorer(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = f"{bundle()}\nexport default {{ render: armagnnExplorer.render }};\n"
        content = traitlets.Dict().tag(sync=True)
        coefficients = traitlets.Dict().tag(sync=True)

        @property
        def filter(self) -> ARMAFilter:
            a, b = ([complex(*parts) for parts in self.coefficients[name]] for name in ("a", "b"))
            if any(v.imag for v in (*a, *b)):
                return ARMAFilter(a, b)
            return ARMAFilter([v.real for v in a], [v.real for v in b])

        @filter.setter
        def filter(self, filter: ARMAFilter) -> None:
            self.coefficients = filter_content(instance("filter", filter, ARMAFilter, "an ARMAFilter"))

    return Explorer
