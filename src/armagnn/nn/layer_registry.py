"""Layers by name: what a configuration says, made."""

from __future__ import annotations

import inspect
from typing import Any, Final

from armagnn import checks
from armagnn.errors import ParameterError
from armagnn.nn.arma_conv import ARMAConv
from armagnn.nn.cayley_conv import CayleyConv
from armagnn.nn.cheb_conv import ChebConv
from armagnn.nn.conv import Conv
from armagnn.nn.gat_conv import GATConv
from armagnn.nn.gcn_conv import GCNConv
from armagnn.nn.gin_conv import GINConv
from armagnn.nn.layer_sequence import LayerSequence
from armagnn.nn.mlp_conv import MLPConv
from armagnn.nn.sage_conv import SAGEConv

FILTERS: Final[dict[str, Any]] = {"arma": ARMAConv, "chebyshev": ChebConv, "cayley": CayleyConv}
"""Layers that reach as far as their order says."""

STACKED: Final[dict[str, Any]] = {"gcn": GCNConv, "gat": GATConv, "sage": SAGEConv, "gin": GINConv, "mlp": MLPConv}
"""Layers that reach one hop, and are stacked to reach further."""

PEERS: Final = ("gat", "sage", "gin")
"""Layers whose parameters are those of PyG's."""


def layer_names() -> list[str]:
    """The names that `make_conv` knows."""
    return ["arma", "gcn", *(name for name in (*FILTERS, *STACKED) if name not in ("arma", "gcn"))]


def make_conv(
    name: str, in_channels: int, out_channels: int, **hyperparameters: Any
) -> ARMAConv | Conv | LayerSequence:
    """Return a layer by its name: ``arma``, ``gcn``, ``chebyshev``, ``cayley``, ``gat``, ``sage``, ``gin``, ``mlp``.

    All are called alike, ``conv(x, op)``. ``conv.kind`` is the kind of `GraphOperator` that the layer is defined with
    (None: it looks at no graph), and ``conv.operator(edge_index, num_nodes)`` builds it with the layer's own settings.

    Args:
        name: of the layer.
        in_channels: features of a node.
        out_channels: features of a node in the output.
        hyperparameters: arguments of the layer's class. For ``gcn``, ``gat``, ``sage``, ``gin`` and ``mlp`` also
            ``num_layers``: with 2 or more the result is a `LayerSequence` of so many.

    Example:
        >>> make_conv("chebyshev", 8, 16, order=3)
        ChebConv(8, 16, order=3)
        >>> make_conv("gcn", 8, 16, num_layers=2).kind
        'gcn'
    """
    known = FILTERS | STACKED
    layer = known[checks.choice("layer", name, known)]
    allowed = list(inspect.signature(layer.__init__).parameters)[3:]  # without self and the two sizes
    allowed += ["num_layers"] if name in STACKED else []
    unknown = [option for option in hyperparameters if option not in allowed]
    if unknown:
        raise ParameterError(f"{name!r} has no hyperparameter {', '.join(unknown)}; it takes {', '.join(allowed)}.")
    num_layers = hyperparameters.pop("num_layers", 1) if name in STACKED else 1
    if checks.integer("num_layers", num_layers, 1) != 1:
        return LayerSequence(layer, in_channels, out_channels, num_layers, **hyperparameters)
    conv: ARMAConv | Conv = layer(in_channels, out_channels, **hyperparameters)
    return conv
