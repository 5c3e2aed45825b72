"""A convolution of X = diag(c) E for many signals c, without X."""

from __future__ import annotations

import torch
from torch import Tensor

from armagnn import kernels
from armagnn.errors import ParameterError, ShapeError
from armagnn.nn import activations
from armagnn.nn.arma_conv import ARMAConv
from armagnn.nn.arma_recursion import Recursion
from armagnn.nn.cayley_conv import CayleyConv, horner, is_polynomial
from armagnn.nn.cayley_transform import Jacobi
from armagnn.nn.cheb_conv import ChebConv
from armagnn.nn.chebyshev_sum import clenshaw, mixed, shifted, signed
from armagnn.nn.conv import Conv, propagate
from armagnn.nn.gcn_conv import GCNConv
from armagnn.operators import CSR, GraphOperator


def scaling(nodes: int, batch: int, dtype: torch.dtype, device: torch.device | str = "cpu") -> CSR:
    r"""Return the pattern of :math:`S` with which :math:`X W = S (E W)` for B signals at once.

    Row ``n B + b`` of S has one entry, ``c_b[n]``, in column n: ``pattern.with_value(c.t().reshape(-1))`` for signals c
    of shape (B, N) is S. All but the values is the same for every batch, so a GPU can record what is done with it.

    Example:
        >>> c, table = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0], [10.0]])
        >>> scales = scaling(2, 2, torch.float32).with_value(c.t().reshape(-1))
        >>> (scales @ table).view(2, 2)
        tensor([[ 1.,  3.],
                [20., 40.]])
    """
    count = torch.arange(nodes * batch + 1, dtype=torch.int32, device=device)
    col = torch.arange(nodes, dtype=torch.int32, device=device).repeat_interleave(batch)
    value = torch.ones(nodes * batch, dtype=dtype, device=device)
    transposed = (count[::batch].contiguous(), count[:-1], count[:-1])
    return CSR(count, col, value, (nodes * batch, nodes), transposed=transposed, check_invariants=False)


def conv_of_scaled(conv: ARMAConv | Conv, scales: CSR, table: Tensor, op: GraphOperator) -> Tensor:
    r"""Return ``conv(c[:, :, None] * table, op)``, shape (B, N, F_out), for signals c of shape (B, N).

    A node has the features :math:`c_n e_n`: what it is, times how much of it the signal has. Every layer here looks at
    X through products X W only, and :math:`X W = \mathrm{diag}(c) (E W)`: the tensor of shape (B, N, F_in) never
    exists, nor the K products of a Chebyshev or Cayley filter side by side.

    Args:
        conv: an `ARMAConv`, `GCNConv`, `ChebConv` or `CayleyConv` with F_in inputs.
        scales: the signals, as `scaling` describes.
        table: E, shape (N, F_in).
        op: the operator of the layer.

    Example:
        >>> from armagnn.nn import GCNConv
        >>> conv, c, table = GCNConv(5, 2), torch.rand(3, 4), torch.randn(4, 5)
        >>> op = conv.operator(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=4)
        >>> scales = scaling(4, 3, torch.float32).with_value(c.t().reshape(-1))
        >>> y = conv_of_scaled(conv, scales, table, op)
        >>> torch.allclose(y, conv(c.unsqueeze(-1) * table, op), atol=1e-6)
        True
    """
    nodes = op.num_nodes
    if table.dim() != 2 or table.shape != (nodes, conv.in_channels) or scales.shape[1] != nodes:
        raise ShapeError(
            f"table must have shape ({nodes}, {conv.in_channels}) and scales {nodes} columns, got "
            f"{tuple(table.shape)} and {scales.shape[1]}."
        )
    if isinstance(conv, ARMAConv):
        w0, w, v, bias = conv._weights()
        start = None if w0 is None else table @ w0
        skip = torch.matmul(table, v)
        signals = table.expand(scales.shape[0] // max(nodes, 1), -1, -1)
        function = conv._unfused(signals)
        steps = Recursion(conv._settings(scales), (start, w, skip, bias), conv._seed(op), function)
        states = steps.run(op, scales)
        return kernels.stack_mean(states).reshape(nodes, -1, conv.out_channels).transpose(0, 1)
    if not isinstance(conv.dropout, Tensor) and conv.dropout == 0:
        out = _filtered(conv, scales, table, op)
        out = out if conv.bias is None else out + conv.bias
        return activations.apply(conv.act, out.transpose(0, 1))
    raise ParameterError("entries of X cannot be dropped where X does not exist: set the layer's dropout to 0.")


def _filtered(conv: Conv, scales: CSR, table: Tensor, op: GraphOperator) -> Tensor:
    """Return the filter of a layer, shape (N, B, F_out), before bias and activation."""

    def times(weight: Tensor) -> Tensor:
        return (scales @ (table @ weight)).reshape(op.num_nodes, -1, conv.out_channels)

    if isinstance(conv, GCNConv):
        return propagate(op, times(conv.weight))
    if isinstance(conv, ChebConv):
        return _polynomial(conv._scale(op), conv.weight.transpose(0, 1), scales, table, op)
    if isinstance(conv, CayleyConv) and is_polynomial(op):
        return _polynomial(1.0, mixed(conv._coefficients(op.dtype), conv.weight), scales, table, op)
    if isinstance(conv, CayleyConv):
        first, *rest = conv.weight.unbind(1)
        pairs = [
            torch.stack([times(real), times(imaginary)], 3)
            for real, imaginary in zip(rest[::2], rest[1::2], strict=True)
        ]
        return times(first) + 2 * horner(Jacobi(op, conv.zoom, conv.jacobi), pairs)
    raise ParameterError(f"{type(conv).__name__} does not look at its input through products X W only.")


def _polynomial(scale: float, weights: Tensor, scales: CSR, table: Tensor, op: GraphOperator) -> Tensor:
    """Return the sum of T_n(sL - I) X W_n, shape (N, B, F_out)."""
    degree, width = weights.shape[0] - 1, weights.shape[2]
    products = torch.matmul(table, signed(weights)).to(op.dtype).unbind(0)

    def add(n: int, z: Tensor | None) -> Tensor:
        """Return diag(c) (E W_n) + z: one launch."""
        z = None if z is None else z.reshape(-1, width)
        y = kernels.gcs(*scales._arguments(), products[n], z, None, None, 0.0, 0, "none", 0.0)
        return y.reshape(op.num_nodes, -1)

    return clenshaw(shifted(op, scale, degree), degree, add).reshape(op.num_nodes, -1, width)
