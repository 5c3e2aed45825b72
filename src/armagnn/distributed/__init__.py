"""Training over the ranks of a process group: the stacks of a layer, or the rows of an operator."""

from armagnn.distributed.cluster_loader import Cluster, ClusterLoader
from armagnn.distributed.edge_stream import EdgeStream
from armagnn.distributed.parallel_stacks import ParallelStacks, parallelize_stacks
from armagnn.distributed.part_folder import GraphPart
from armagnn.distributed.part_operator import load_part, part_operator
from armagnn.distributed.partition_report import PartitionReport
from armagnn.distributed.partitioned_operator import PartitionedOperator
from armagnn.distributed.partitioning import partition, partition_dataset
from armagnn.distributed.rank_groups import ranks
from armagnn.distributed.rows_of_nodes import PartRows

__all__ = [
    "Cluster",
    "ClusterLoader",
    "EdgeStream",
    "GraphPart",
    "ParallelStacks",
    "PartRows",
    "PartitionReport",
    "PartitionedOperator",
    "load_part",
    "parallelize_stacks",
    "part_operator",
    "partition",
    "partition_dataset",
    "ranks",
]
