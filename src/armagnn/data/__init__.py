"""Datasets: graphs with features, labels and splits, from checked, pickle-free files; the catalogue of names."""

from armagnn.data.catalogue import CATALOGUE, Entry, all_entries
from armagnn.data.colour_refinement import Bound, bound, refined_classes
from armagnn.data.data_folder import add, fetch, make_news, remove
from armagnn.data.dataset_statistics import statistics, statistics_of
from armagnn.data.features import NodeFeatures, clustering, node_features, nodes_of
from armagnn.data.graph_files import read_graphs_file
from armagnn.data.graphs import GraphsDataset
from armagnn.data.loading import load, load_graphs, load_signals, read_own, verify
from armagnn.data.node_files import read_node_file
from armagnn.data.nodes import NodeDataset
from armagnn.data.scaling import Scaler
from armagnn.data.sets.bench_hard import make_bench_hard
from armagnn.data.sets.qm9 import with_bond_orders
from armagnn.data.signals import SignalsDataset
from armagnn.data.splits import Fold, folds, own_split
from armagnn.data.tu import read_tu_folder

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
