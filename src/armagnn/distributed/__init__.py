"""Stacks over the ranks of a process group (Section 4.1)."""

from armagnn.distributed.stacks import ParallelStacks, parallelize_stacks

__all__ = ["ParallelStacks", "parallelize_stacks"]
