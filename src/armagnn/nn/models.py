"""Whole networks of ARMA and rational layers with the habits of PyTorch Geometric's `BasicGNN`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

import torch
from torch import Tensor, nn
from torch_geometric.nn import BatchNorm
from torch_geometric.nn.models.basic_gnn import BasicGNN

from armagnn import checks
from armagnn.errors import MissingAttributeError, ParameterError, UnsupportedError, shown
from armagnn.nn.arma_conv import ARMAConv
from armagnn.nn.conv import Conv, drop
from armagnn.nn.norms import NodeBatchNorm
from armagnn.nn.rational_conv import RationalConv
from armagnn.operators import CSR, GraphOperator

JUMPS: Final = ("last", "cat", "max", "lstm")
"""How the outputs of all layers are put together: PyG's jumping knowledge."""

Name = str | Callable[..., Any] | None


class LayeredGNN(BasicGNN):
    """L layers one after another, each with norm, activation, dropout and, if wanted, a residual connection.

    The base class of `ARMA` and `Rational`. A subclass says by ``_conv`` what its layers are.
    """

    supports_edge_weight: Final[bool] = True
    supports_edge_attr: Final[bool] = False
    lazy: ClassVar[bool] = False
    """Whether ``in_channels=-1`` takes the number of features from the first input."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        num_layers: int,
        out_channels: int | None = None,
        dropout: float = 0.0,
        act: Name = "relu",
        act_first: bool = False,
        act_kwargs: dict[str, Any] | None = None,
        norm: Name = None,
        norm_kwargs: dict[str, Any] | None = None,
        jk: str | None = None,
        *,
        residual: bool = False,
        residual_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        if not (self.lazy and isinstance(in_channels, int) and in_channels == -1):
            in_channels = checks.integer("in_channels", in_channels, 1)
        hidden_channels = checks.integer("hidden_channels", hidden_channels, 1)
        num_layers = checks.integer("num_layers", num_layers, 1, 1000)
        if out_channels is not None:
            out_channels = checks.integer("out_channels", out_channels, 1)
        if jk is not None:
            checks.choice("jk", jk, JUMPS)
        act_first = checks.flag("act_first", act_first)
        self.residual = checks.flag("residual", residual)
        self.residual_scale = checks.real("residual_scale", residual_scale, above=0)
        self._between = norm is not None and not act_first
        try:
            super().__init__(
                in_channels, hidden_channels, num_layers, out_channels, checks.probability("dropout", dropout),
                act, act_first, act_kwargs, norm, norm_kwargs, jk, **kwargs,
            )  # fmt: skip
        except (ValueError, TypeError) as error:
            if isinstance(error, ParameterError) or not str(error).startswith(("Could not resolve", "Found")):
                raise
            given = f"act={shown(act)}, norm={shown(norm)}"
            raise ParameterError(f"{error} ({given}): PyTorch Geometric's resolver knows no such name.") from error
        for each in self.norms:
            if type(each) is BatchNorm:
                each.module = _with_trials(each.module)
        if jk is None:
            self._conv_at(num_layers - 1).act = None

    def init_conv(self, in_channels: Any, out_channels: int, **kwargs: Any) -> Any:
        """Return a layer of the network."""
        return self._conv(in_channels, out_channels, kwargs)

    def _conv(self, in_channels: int, out_channels: int, options: dict[str, Any]) -> Conv:
        raise NotImplementedError

    def _conv_at(self, layer: int) -> Any:
        return self.convs[layer]

    # -------------------------------------------------------------------------------------------------------- forward

    def operator(self, *args: Any, **kwargs: Any) -> GraphOperator:
        """Return the operator that all layers want, built once from a graph in any form: see `Conv.operator`."""
        op: GraphOperator = self._conv_at(0).operator(*args, **kwargs)
        return op

    def forward(
        self,
        x: Tensor | CSR,
        edge_index: Any,
        edge_weight: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
        **trimming: Any,
    ) -> Tensor:
        """Return the features (..., N, F_out) after the last layer, or (with ``jk``) after the last linear map.

        Args:
            x: the node features: (..., N, F_in) dense, or (N, F_in) sparse.
            edge_index: a `GraphOperator`, an edge index of shape (2, E), a sparse matrix or a PyG ``Data``. The
                operator is built once for all layers.
            edge_weight: the weights of an edge index, shape (E).
            batch: the graph of each node, for norms of PyG that ask for it.
            batch_size: the number of graphs, likewise.
        """
        unknown = [name for name, value in trimming.items() if value is not None]
        if unknown:
            raise UnsupportedError(
                f"{type(self).__name__} takes no {', '.join(unknown)}: a part of a graph has other degrees, and so "
                "another operator. Give it the whole graph."
            )
        first = self._conv_at(0)
        given, op = x, edge_index
        if not getattr(first, "explain", None):  # an explainer masks the edges of each layer
            given, op = first._checked(x, edge_index, edge_weight)
            edge_weight = None
        xs: list[Tensor] = []
        for layer in range(self.num_layers):
            given = self._layer(layer, given, (op, edge_weight), batch, batch_size)
            xs.append(given)
        return self._joined(xs)

    def _layer(
        self, layer: int, x: Tensor | CSR, graph: tuple[Any, ...], batch: Tensor | None, batch_size: int | None
    ) -> Tensor:
        """Return what one layer makes of x: convolution, norm, activation, dropout, and x itself if it is residual."""
        conv = self._conv_at(layer)
        out: Tensor = conv(x, *graph)
        if layer < self.num_layers - 1 or self.jk_mode is not None:
            if self.act is not None and self.act_first and self._outside:
                out = self.act(out)
            norm = self.norms[layer]
            out = norm(out, batch, batch_size) if self.supports_norm_batch else norm(out)
            if self.act is not None and not self.act_first and self._outside:
                out = self.act(out)
            out = drop(out, self.dropout.p, self.training, graph[0] if isinstance(graph[0], GraphOperator) else None)
        if self.residual and isinstance(x, Tensor) and x.shape == out.shape:
            return torch.add(x, out, alpha=self.residual_scale)
        return out

    @property
    def _outside(self) -> bool:
        """Does the activation stand outside the layers? It may be part of each of them."""
        return True

    def _joined(self, xs: list[Tensor]) -> Tensor:
        """Return the output, from the outputs of all layers."""
        out = xs[-1]
        if hasattr(self, "jk"):
            if self.jk_mode == "lstm":  # it takes nodes as the first axis, and no other
                out = self.jk([x.reshape(-1, x.shape[-1]) for x in xs]).reshape(out.shape)
            else:
                out = self.jk(xs)
        return self.lin(out) if hasattr(self, "lin") else out

    # ------------------------------------------------------------------------------------------------------ inference

    @torch.no_grad()
    def inference(
        self,
        loader: Any,
        device: torch.device | str | None = None,
        embedding_device: torch.device | str = "cpu",
        progress_bar: bool = False,
        cache: bool = False,
    ) -> Tensor:
        """Return the outputs of all nodes, without gradients, one layer after the other.

        PyG's own method runs each layer on sampled parts of the graph, whose degrees differ from those of the graph.
        This one runs each layer on the whole graph, so it returns what ``forward`` returns in evaluation.

        Args:
            loader: a PyG ``Data`` with ``x`` and ``edge_index``, or a loader of PyG, which holds one.
            device: where to compute; by default where the weights are.
            embedding_device: where the result shall lie.
            progress_bar: not used; there are no batches.
            cache: not used; the operator is built once.
        """
        if self.training:
            raise ParameterError("inference is for evaluation: call net.eval() first.")
        data = getattr(loader, "data", loader)
        if not isinstance(getattr(data, "x", None), Tensor):
            raise MissingAttributeError(f"loader must have node features x, or data that do; got {shown(loader)}.")
        place = next(self.parameters()).device if device is None else checks.device(device)
        x, op = self._conv_at(0)._checked(data.x.to(place), data.to(place), None)
        jumps = self.jk_mode not in (None, "last")
        xs: list[Tensor] = []
        for layer in range(self.num_layers):
            x = self._layer(layer, x, (op,), getattr(data, "batch", None), None)
            xs = [*xs, x] if jumps else [x]
        return self._joined(xs).to(embedding_device)

    def inference_per_layer(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: a layer on a part of the graph would have another operator."""
        raise UnsupportedError("a part of a graph has other degrees, and so another operator: use inference(data).")


class ARMA(LayeredGNN):
    r"""A network of L ARMA layers (Eq. 16), each followed by norm, activation and dropout,

    .. math::
        X_{l+1} = X_l + s\, \sigma\left( \mathrm{norm}\left( \mathrm{ARMA}_l(X_l) \right) \right),

    with the sum, and the factor s, only where ``residual`` is set and a layer has as many outputs as inputs. It
    is a subclass of PyG's `BasicGNN`. Without ``jk`` the last layer puts out ``out_channels`` and is linear; with
    ``jk`` a linear map follows.

    The activation is part of the ARMA layer: it acts after every step (Eq. 14). With a norm it also acts after the
    norm; layers of one step then have it only there. ``act_first=True`` puts it before the norm only.

    Args:
        in_channels: features of a node, or -1 to take them from the first input.
        hidden_channels: units of every layer but the last.
        num_layers: L, the number of ARMA layers.
        out_channels: outputs of a node; by default ``hidden_channels``.
        dropout: drop rate of the output of every layer but the last, from the source of randomness of this library.
        act: the activation, a name or a module, as PyG resolves it.
        act_first: the activation comes before the norm.
        act_kwargs: arguments of the activation.
        norm: the norm, a name (``"batch"``, ``"layer"``, ``"graph"``, ...) or a module, as PyG resolves it. The batch
            norm is `NodeBatchNorm`, which knows trials as an axis. ``"layer"`` of PyG normalises over all nodes, too,
            unless ``norm_kwargs={"mode": "node"}``.
        norm_kwargs: arguments of the norm.
        jk: None, ``"last"``, ``"cat"``, ``"max"`` or ``"lstm"``: how the outputs of all layers are put together.
        num_stacks: K of each layer.
        num_steps: T of each layer.
        residual: add the input of each layer to its output, where both have the same size.
        residual_scale: s. Sums of many layers grow with their number at s = 1; a network of L layers, L large, trains
            better with s = 1 / L.
        skip_dropout: drop rate of the skip connections X V_k.
        kwargs: further arguments of `ARMAConv`: ``shared_weights``, ``init``, ``bias``, ``fixed_point``.

    Example:
        >>> import torch
        >>> net = ARMA(8, 16, num_layers=4, out_channels=3, norm="batch", residual=True, num_stacks=2)
        >>> net(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 3])
        >>> net
        ARMA(8, 3, num_layers=4)
    """

    lazy = True

    def __init__(
        self, *args: Any, num_stacks: int = 1, num_steps: int = 1, skip_dropout: float = 0.0, **kwargs: Any
    ) -> None:
        reserved = {"cached"} & kwargs.keys()
        if reserved:
            raise ParameterError("ARMA takes no cached: build the operator once, net.operator(edge_index, num_nodes).")
        num_steps = checks.integer("num_steps", num_steps, 1)
        self._one_step = num_steps == 1 and kwargs.get("fixed_point") is None
        rate = checks.probability("skip_dropout", skip_dropout)
        own = {"num_stacks": num_stacks, "num_layers": num_steps, "dropout": rate}
        super().__init__(*args, **kwargs, conv_options=own)

    def _conv(self, in_channels: int, out_channels: int, options: dict[str, Any]) -> Conv:
        own = options.pop("conv_options")
        inside = None if self._between and self._one_step else _name_or_module(self.act)
        return ARMAConv(in_channels, out_channels, act=inside, **own, **options)

    @property
    def _outside(self) -> bool:
        return self._between


class Rational(LayeredGNN):
    r"""A network of L rational layers (`RationalConv`), each followed by norm, activation and dropout,

    .. math::
        X_{l+1} = X_l + s\, \sigma\left( \mathrm{norm}\left( h_l(M) X_l W_l + b_l \right) \right),

    with the sum, and the factor s, only where ``residual`` is set and a layer has as many outputs as inputs.
    The graph is undirected.

    Args:
        args: ``in_channels, hidden_channels, num_layers, out_channels, dropout, act, act_first, act_kwargs, norm,
            norm_kwargs, jk``, ``residual`` and ``residual_scale``, as `ARMA` takes them.
        kwargs: further arguments of `RationalConv`: ``order``, ``init``, ``groups``, ``learn_poles``, ``method``, ...

    Example:
        >>> import torch
        >>> net = Rational(8, 16, num_layers=2, out_channels=3, jk="max", order=2)
        >>> net(torch.randn(3, 8), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 3])
    """

    def _conv(self, in_channels: int, out_channels: int, options: dict[str, Any]) -> Conv:
        return RationalConv(in_channels, out_channels, act=None, **options)


def _name_or_module(act: Any) -> Any:
    """Return the activation as a layer takes it: ReLU by its name, which the representation does not show."""
    return "relu" if type(act) is nn.ReLU else act


def _with_trials(norm: nn.BatchNorm1d) -> NodeBatchNorm:
    """Return the same batch norm, with trials as an axis."""
    settings = {name: getattr(norm, name) for name in ("eps", "momentum", "affine", "track_running_stats")}
    made = NodeBatchNorm(norm.num_features, **settings)
    made.load_state_dict(norm.state_dict())
    return made
