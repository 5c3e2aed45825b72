"""The catalogue: graphs with features, labels and splits, from checked, pickle-free files."""

from armagnn.data.bench_hard import make_bench_hard
from armagnn.data.catalogue import all_entries, load, load_graphs, load_signals
from armagnn.data.counts import statistics, statistics_of
from armagnn.data.dataset import NodeDataset
from armagnn.data.entries import CATALOGUE, Entry
from armagnn.data.features import NodeFeatures, Scaler, clustering, node_features, nodes_of
from armagnn.data.fetching import fetch
from armagnn.data.folds import Fold, folds, own_split
from armagnn.data.graphs import GraphsDataset
from armagnn.data.graphs_file import read_graphs_file
from armagnn.data.integrity import verify
from armagnn.data.node_file import read_node_file
from armagnn.data.prepared import make_news
from armagnn.data.qm9 import with_bond_orders
from armagnn.data.refinement import Bound, bound, refined_classes
from armagnn.data.signals import SignalsDataset
from armagnn.data.tu_folder import read_tu_folder
from armagnn.data.user import add, read_own, remove

__all__ = [
    "CATALOGUE",
    "Bound",
    "Entry",
    "Fold",
    "GraphsDataset",
    "NodeDataset",
    "NodeFeatures",
    "Scaler",
    "SignalsDataset",
    "add",
    "all_entries",
    "bound",
    "clustering",
    "fetch",
    "folds",
    "load",
    "load_graphs",
    "load_signals",
    "make_bench_hard",
    "make_news",
    "node_features",
    "nodes_of",
    "own_split",
    "read_graphs_file",
    "read_node_file",
    "read_own",
    "read_tu_folder",
    "refined_classes",
    "remove",
    "statistics",
    "statistics_of",
    "verify",
    "with_bond_orders",
]
