"""Layers by name: what a configuration says, made, alone or several in a row. Other packages can add theirs."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, Final, TypeVar, cast

from torch import Tensor, nn

from armagnn import checks
from armagnn.errors import ParameterError, shown
from armagnn.nn.conv import Conv
from armagnn.operators import CSR, GraphOperator

LAYERS: Final = "armagnn.layers"
"""The group of entry points by which other packages name their layers and the modules that register them."""

PEERS: Final = ("gat", "sage", "gin")
"""Layers whose parameters are those of PyG's."""

C = TypeVar("C", bound=Conv)


@dataclass(frozen=True)
class LayerEntry:
    """A layer that has a name.

    Attributes:
        layer: its class.
        stacks: the argument of the class that the option K of a training (``--stacks``) sets, if there is one.
        layers: the argument that T (``--layers``) sets, if there is one.
    """

    layer: type[Conv]
    stacks: str | None
    layers: str | None

    @property
    def repeated(self) -> bool:
        """Whether the layer reaches one hop only: L of them stand one after another to reach further."""
        return self.stacks is None and self.layers is None

    def options(self, k: int, t: int) -> dict[str, int]:
        """Return the arguments of `make_conv` for K and T (or L)."""
        layers = "num_layers" if self.repeated else self.layers
        return {name: size for name, size in ((self.stacks, k), (layers, t)) if name is not None}


_entries: dict[str, LayerEntry] = {}


def register_layer(name: str, *, stacks: str | None = None, layers: str | None = None) -> Callable[[type[C]], type[C]]:
    """Make a layer known by a name, to `make_conv`, the networks of all tasks and ``armagnn train --conv``.

    A class decorator. The class is a `Conv` and takes ``in_channels, out_channels``, then options by name, ``act`` and
    ``dropout`` among them. A package that is installed registers its layers in a module that an entry point of the
    group ``armagnn.layers`` names; the name of the entry point is the layer's.

    Args:
        name: of the layer.
        stacks: the argument of the class that K, ``--stacks`` of a training, sets: stacks of ARMA, terms of Chebyshev.
        layers: the argument that T, ``--layers``, sets: steps of ARMA, Jacobi iterations of Cayley. A layer with
            neither argument reaches one hop; ``--layers`` then says how many of them stand one after another.

    Example:
        >>> @register_layer("doubled")  # doctest: +SKIP
        ... class Doubled(Conv):
        ...     kind = "gcn"
        ...     def __init__(self, in_channels, out_channels, act="relu", dropout=0.0, bias=True):
        ...         super().__init__(in_channels, out_channels, act, dropout, bias)
        ...         self.weight = torch.nn.Parameter(torch.empty(in_channels, out_channels))
        ...         self.reset_parameters()
        ...     def _filter(self, x, op):
        ...         return 2 * propagate(op, times(x, self.weight))
        >>> make_conv("doubled", 8, 16, num_layers=2)  # doctest: +SKIP
        LayerSequence(Doubled(8, 16), Doubled(16, 16))
    """
    if not isinstance(name, str) or not name:
        raise ParameterError(f"the name of a layer must be a text, got {shown(name)}.")
    for which, argument in (("stacks", stacks), ("layers", layers)):
        if not (argument is None or isinstance(argument, str)):
            raise ParameterError(
                f"{which} must be the name of an argument of the layer, or None, got {shown(argument)}."
            )

    def register(layer: type[C]) -> type[C]:
        if not (isinstance(layer, type) and issubclass(layer, Conv)):
            raise ParameterError(f"the layer {name!r} must be a subclass of armagnn.nn.Conv, got {shown(layer)}.")
        missing = {"act", "dropout", stacks, layers} - {None, *_arguments(layer)}  # type: ignore[arg-type]
        if missing:
            raise ParameterError(
                f"{layer.__name__} takes no {', '.join(sorted(map(str, missing)))}; {name!r} needs it."
            )
        known = _entries[name].layer if name in _entries else layer
        if (known.__module__, known.__qualname__) != (layer.__module__, layer.__qualname__):  # a module may be reloaded
            raise ParameterError(f"{name!r} is {known.__name__} already: give {layer.__name__} another name.")
        _entries[name] = LayerEntry(layer, stacks, layers)
        return layer

    return register


def layer_names() -> list[str]:
    """Return the names that `make_conv` knows; those of packages that are not loaded yet come last."""
    return list(dict.fromkeys([*sorted(_entries), *(entry.name for entry in entry_points(group=LAYERS))]))


def find_layer(name: object) -> LayerEntry | None:
    """Return a layer by its name, from another package if need be; None where nobody has it."""
    if isinstance(name, str) and name not in _entries:
        for entry in entry_points(group=LAYERS, name=name):
            entry.load()  # the module registers the layer
            if name not in _entries:
                raise ParameterError(f"{entry.value} is installed as the layer {name!r}, but does not register it.")
    return _entries.get(name) if isinstance(name, str) else None


def make_conv(name: str, in_channels: int, out_channels: int, **hyperparameters: Any) -> Conv | LayerSequence:
    """Return a layer by its name.

    Names: ``arma``, ``rational``, ``gcn``, ``chebyshev``, ``cayley``, ``gpr``, ``bernstein``, ``jacobi``, ``gat``,
    ``sage``, ``gin``, ``mlp``; others are added by `register_layer`. All are called alike, ``conv(x, op)``.
    ``conv.kind`` is the kind of `GraphOperator` that the layer is defined with (None: it looks at no graph), and
    ``conv.operator(edge_index, num_nodes)`` builds it with the layer's own settings.

    Args:
        name: of the layer.
        in_channels: features of a node.
        out_channels: features of a node in the output.
        hyperparameters: arguments of the layer's class. For ``gcn``, ``gat``, ``sage``, ``gin`` and ``mlp`` also
            ``num_layers``: with 2 or more the result is a `LayerSequence` of that number of layers.

    Example:
        >>> make_conv("chebyshev", 8, 16, order=3)
        ChebConv(8, 16, order=3)
        >>> make_conv("gcn", 8, 16, num_layers=2).kind
        'gcn'
    """
    entry = find_layer(name) or _entries[checks.choice("layer", name, layer_names())]
    make: Any = entry.layer
    allowed = _arguments(make) + (["num_layers"] if entry.repeated else [])
    unknown = [option for option in hyperparameters if option not in allowed]
    if unknown:
        raise ParameterError(f"{name!r} has no hyperparameter {', '.join(unknown)}; it takes {', '.join(allowed)}.")
    num_layers = hyperparameters.pop("num_layers", 1) if entry.repeated else 1
    if checks.integer("num_layers", num_layers, 1) != 1:
        return LayerSequence(make, in_channels, out_channels, num_layers, **hyperparameters)
    conv: Conv = make(in_channels, out_channels, **hyperparameters)
    return conv


@functools.cache
def _arguments(layer: Any) -> list[str]:
    """Return the arguments of a class besides the two sizes."""
    return list(inspect.signature(layer).parameters)[2:]


# ------------------------------------------------------------------------------------------------------ layers in a row

DEEPEST: Final = 1000
"""The most layers of a stack."""


class LayerSequence(nn.Module):
    r"""L layers of one kind, one after another,

    .. math::
        \bar X = f_L(\dots f_2(f_1(X))),

    the paper's "stack of K layers for GCN, GAT, GIN, and GraphSAGE", which reaches as many hops as a filter of order K.
    The first layer maps F_in to F_out features, the others F_out to F_out. Every layer has an activation: the last one
    the given ``act``, the others the same or, where it is None, ReLU.

    Args:
        layer: the class of the layers.
        in_channels: F_in, features of a node.
        out_channels: F_out, features of a node in the output and in between.
        num_layers: L.
        act: the activation of the last layer.
        options: further arguments of every layer. ``dropout`` so acts on the input of each.

    Example:
        >>> import torch
        >>> from armagnn.nn import GCNConv
        >>> stack = LayerSequence(GCNConv, 8, 16, num_layers=2, act=None)
        >>> stack(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 16])
        >>> stack
        LayerSequence(GCNConv(8, 16), GCNConv(16, 16, act=None))
    """

    def __init__(
        self,
        layer: type[Conv],
        in_channels: int,
        out_channels: int,
        num_layers: int,
        act: str | Callable[[Tensor], Tensor] | None = "relu",
        **options: Any,
    ) -> None:
        super().__init__()
        num_layers = checks.integer("num_layers", num_layers, 1, DEEPEST)
        make: Callable[..., Conv] = layer
        inner = "relu" if act is None else act
        self.in_channels, self.out_channels, self.kind = in_channels, out_channels, layer.kind
        self.layers = nn.ModuleList(
            make(
                out_channels if depth else in_channels,
                out_channels,
                act=act if depth == num_layers - 1 else copy.deepcopy(inner),  # a learned one is each layer's own
                **options,
            )
            for depth in range(num_layers)
        )

    def reset_parameters(self) -> None:
        """Draw the weights of every layer anew."""
        for layer in self:
            layer.reset_parameters()

    def operator(self, *args: Any, **kwargs: Any) -> GraphOperator:
        """Return the operator that the layers want, as `Conv.operator`; None if they want none."""
        return next(iter(self)).operator(*args, **kwargs)

    def forward(self, x: Tensor | CSR, edge_index: Any = None, edge_weight: Tensor | None = None) -> Tensor:
        """Return the features after the last layer, shape (..., N, F_out); a graph is made an operator once."""
        x, op = next(iter(self))._checked(x, edge_index, edge_weight)
        for layer in self:
            x = layer(x, op)
        return cast(Tensor, x)

    def __iter__(self) -> Iterator[Conv]:
        return cast(Iterator[Conv], iter(self.layers))

    def __len__(self) -> int:
        return len(self.layers)

    def __repr__(self) -> str:
        return f"LayerSequence({', '.join(map(repr, self))})"
