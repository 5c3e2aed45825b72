"""The catalogue: graphs with features, labels and splits, from checked, pickle-free files."""

from armagnn.data.catalogue import CATALOGUE, load
from armagnn.data.dataset import NodeDataset
from armagnn.data.node_file import read_node_file

__all__ = ["CATALOGUE", "NodeDataset", "load", "read_node_file"]
