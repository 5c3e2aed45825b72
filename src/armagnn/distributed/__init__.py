"""Training over the ranks of a process group: the stacks of a layer, or the rows of an operator."""

from armagnn.distributed.parallel_stacks import ParallelStacks, parallelize_stacks
from armagnn.distributed.partitioned_operator import PartitionedOperator

__all__ = ["ParallelStacks", "PartitionedOperator", "parallelize_stacks"]
