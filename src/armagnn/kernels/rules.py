"""What makes the registered operators differentiable, backwards and forwards, and gives each its rule for vmap."""

from __future__ import annotations

from armagnn.kernels import ops
from armagnn.kernels.ops_gradients import GRADIENTS
from armagnn.kernels.ops_tangents import TANGENTS
from armagnn.kernels.ops_vmap import VMAP

for _name, (_setup, _backward) in GRADIENTS.items():
    ops.register(_name, _setup, _backward, VMAP[_name], TANGENTS[_name])
