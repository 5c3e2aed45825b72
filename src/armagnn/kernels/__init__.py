"""How ``op @ x`` and one GCS step run. Nothing outside this room knows about devices.

It is for the other rooms, not for users: its functions trust the arrays that they are given, and indices that point
elsewhere read foreign memory. `CSR` and the layers check what comes from outside, once, before any kernel sees it.

=============  =====================================================================================
`backends`     what a backend must have, with all shapes; which of the modules below runs on a device
`ops`          the registered operators; `ops_rules`: their derivatives, backwards and forwards, and
               rules for vmap
`layer`        a whole ARMA layer as one operation, alone, for many trials under vmap, and for many signals
`layer_products`  its passes product by product, on any device
`reference`    plain torch: the oracle in tests and the fall-back where nothing faster is installed
`cpu`          numba kernels for the processor, and how it runs a layer; built on `cpu/gather`, `cpu/dense` (vector
               code), `cpu/threads`, `cpu/compile`
`gpu`          Triton kernels for the GPU
`aggregation`  attention over neighbours and their maximum, values and gradients
`blocks`       many matrices at once: dense products of many trials, long sums among them; block-diagonal matrices,
               multiplied or cut into batches of small graphs
=============  =====================================================================================
"""

from armagnn.kernels import ops_rules  # noqa: F401  the operators have no gradients before
from armagnn.kernels.aggregation import added_attention, neighbour_attention, neighbour_max
from armagnn.kernels.backends import (
    Settings,
    StateUpdate,
    backend,
    column_dots,
    compiled_assembly,
    cut_rows,
    keep_rows_whole,
)
from armagnn.kernels.blocks import DenseBlocks, block_product, product
from armagnn.kernels.layer import arma_layer
from armagnn.kernels.ops import (
    ACTIVATIONS,
    dropout,
    dropout_trials,
    gcs,
    sddmm,
    sort_coo,
    spmm,
    stack_matmul,
    stack_mean,
    transpose,
)

__all__ = [
    "ACTIVATIONS",
    "DenseBlocks",
    "Settings",
    "StateUpdate",
    "added_attention",
    "arma_layer",
    "backend",
    "block_product",
    "column_dots",
    "compiled_assembly",
    "cut_rows",
    "dropout",
    "dropout_trials",
    "gcs",
    "keep_rows_whole",
    "neighbour_attention",
    "neighbour_max",
    "product",
    "sddmm",
    "sort_coo",
    "spmm",
    "stack_matmul",
    "stack_mean",
    "transpose",
]
