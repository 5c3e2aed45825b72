"""Small files of every kind, and a place for the user's own."""

from __future__ import annotations

import numpy as np

from armagnn.data.arrays import Arrays


def node_arrays() -> Arrays:
    return {
        "x_indptr": np.array([0, 2, 3, 3, 5, 6, 7], dtype=np.int32),
        "x_indices": np.array([0, 3, 1, 0, 2, 3, 2], dtype=np.int16),
        "x_data": np.array([1.0, 3.0, 2.0, -1.0, 4.0, 1.0, 0.5], dtype=np.float32),
        "x_shape": np.array([6, 4], dtype=np.int32),
        "edge_index": np.array([[0, 1, 1, 2, 4, 5], [1, 0, 2, 1, 5, 4]], dtype=np.int32),
        "y": np.array([0, 1, 2, -1, 1, 0], dtype=np.int8),
        "train_idx": np.array([0, 1], dtype=np.int32),
        "val_idx": np.array([2], dtype=np.int32),
        "test_idx": np.array([4, 5], dtype=np.int32),
    }


FEATURES = np.array([[1, 0, 1], [0, 0, 1], [1, 0, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0], [1, 0, 0]], dtype=np.uint8)
LABELS = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0], [0, 0], [0, 1]], dtype=np.uint8)


def multilabel_arrays() -> Arrays:
    """Graphs 3 (nodes 0, 1, 3: train), 5 (2, 4: validation) and 9 (5, 6: test); the labels of node 3 are unknown."""
    return {
        "edge_index": np.array([[0, 1, 2, 5, 6], [1, 3, 4, 6, 6]], dtype=np.int32),
        "graph_id": np.array([3, 3, 5, 3, 5, 9, 9], dtype=np.uint8),
        "split": np.array([0, 0, 1, 0, 1, 2, 2], dtype=np.uint8),
        "features_packed": np.packbits(FEATURES, axis=1),
        "n_features": np.array(3, dtype=np.int32),
        "labels_packed": np.packbits(LABELS, axis=1),
        "n_labels": np.array(2, dtype=np.int32),
        "label_known": np.array([True, True, True, False, True, True, True]),
    }


def graphs_arrays() -> Arrays:
    return {
        "edge_index": np.array([[0, 1, 2, 3, 3, 4], [1, 0, 3, 2, 4, 3]], dtype=np.int32),
        "ptr": np.array([0, 2, 5, 6], dtype=np.int32),
        "y": np.array([1, 0, 1], dtype=np.int8),
        "node_labels": np.array([1, 7, 7, 2, 1, 1], dtype=np.int8),
        "node_attr": np.arange(12, dtype=np.float32).reshape(6, 2),
        "edge_labels": np.array([0, 0, 1, 1, 2, 2], dtype=np.int8),
        "edge_weight": np.array([1.0, 1.0, 0.5, 0.5, 2.0, 2.0], dtype=np.float32),
        "split": np.array([0, 2, 1], dtype=np.int8),
    }
