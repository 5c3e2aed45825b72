"""The catalogue: graphs with features, labels and splits, from checked, pickle-free files."""

from armagnn.data.catalogue import all_entries, load, load_graphs
from armagnn.data.counts import statistics, statistics_of
from armagnn.data.dataset import NodeDataset
from armagnn.data.entries import CATALOGUE, Entry
from armagnn.data.fetching import fetch
from armagnn.data.graphs import GraphsDataset
from armagnn.data.graphs_file import read_graphs_file
from armagnn.data.integrity import verify
from armagnn.data.node_file import read_node_file
from armagnn.data.user import add

__all__ = [
    "CATALOGUE",
    "Entry",
    "GraphsDataset",
    "NodeDataset",
    "add",
    "all_entries",
    "fetch",
    "load",
    "load_graphs",
    "read_graphs_file",
    "read_node_file",
    "statistics",
    "statistics_of",
    "verify",
]
