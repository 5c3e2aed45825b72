"""Stacks over the ranks of a process group (Section 4.1)."""

from armagnn.distributed.parallel_stacks import ParallelStacks, parallelize_stacks

__all__ = ["ParallelStacks", "parallelize_stacks"]
