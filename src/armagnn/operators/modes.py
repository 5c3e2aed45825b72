"""What is made once and kept must not depend on the mode of torch that it happens to be made in."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from armagnn.torch_private import is_wrapped, learned, recording


def normal_mode() -> AbstractContextManager[Any]:
    """Leave ``torch.inference_mode`` for what is kept: a tensor made there could not serve training later."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return nullcontext()
    return torch.inference_mode(False)


def lasting() -> bool:
    """Return whether tensors made now last: those of an export or of a mode of torch are fake, and must not be kept.

    Code that torch.compile traces may keep them: the compiler then keeps the real ones.
    """
    return torch.compiler.is_dynamo_compiling() or not recording()


def may_be_kept(tensor: Tensor) -> bool:
    """Return whether a tensor may outlive the call that made it.

    A learned value belongs to one backward pass; a fake or wrapped tensor must not outlive its mode; and what a CUDA
    graph records has no values before it is replayed.
    """
    return not (
        recording()
        or learned(tensor)
        or is_wrapped(tensor)
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )
