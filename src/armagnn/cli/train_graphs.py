"""``armagnn train graphs``: classification or regression of whole graphs, the user's own or the catalogue's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from armagnn.cli.train import NETWORK, PAPERS, RUN, TRAINING, app, carry_out, option, typed_options
from armagnn.errors import ParameterError
from armagnn.paper.published import METHODS
from armagnn.paper.published_graphs import CLASSIFICATION, ORDERS, graph_order, group
from armagnn.training import GraphsConfig
from armagnn.training.graphs import is_folder
from armagnn.training.graphs_config import data_name

DATA = "Data"


@app.command("graphs")
def train_graphs(
    ctx: typer.Context,
    data: Annotated[
        str,
        option(
            DATA,
            "A folder in TU's format (DS_A.txt, DS_graph_indicator.txt, DS_graph_labels.txt or DS_graph_attributes.txt,"
            " ...), an .npz file of graphs, or a name such as mutag.",
            default="needed, but with --resume",
        ),
    ] = "",
    target: Annotated[
        str, option(DATA, "For a folder that has both: labels (classes) or attributes (real targets).")
    ] = GraphsConfig.target,
    fold: Annotated[
        int, option(DATA, "Which of ten folds, 0 to 9: a tenth of the graphs for test, about a tenth for stopping.")
    ] = GraphsConfig.fold,
    split_seed: Annotated[int, option(DATA, "Seed of the folds.")] = GraphsConfig.split_seed,
    conv: Annotated[str, option(RUN, f"The layers: {', '.join(METHODS)}.")] = GraphsConfig.conv,
    out: Annotated[Path | None, option(RUN, "The run folder.", default="runs/DATA-CONV")] = None,
    resume: Annotated[bool, option(RUN, "Continue an interrupted run, to the same result.", "--resume")] = False,
    overwrite: Annotated[bool, option(RUN, "Replace the run in the folder.", "--overwrite")] = False,
    seed: Annotated[int, option(RUN, "Seed of the first trial; the next are seed + 1, ...")] = GraphsConfig.seed,
    seeds: Annotated[
        int, option(RUN, "Number of trials, one per seed; they are trained together.")
    ] = GraphsConfig.seeds,
    device: Annotated[str, option(RUN, "cpu, cuda or cuda:1.")] = GraphsConfig.device,
    hidden: Annotated[int | None, option(NETWORK, "Units of each convolution.", default="32; 64 on qm9")] = None,
    depth: Annotated[int | None, option(NETWORK, "Convolutions.", default="3; 1 on qm9")] = None,
    head: Annotated[
        int | None, option(NETWORK, "Units of a hidden fully connected layer; 0: none.", default="0; 128 on qm9")
    ] = None,
    stacks: Annotated[
        int | None, option(NETWORK, "K: stacks of arma, order of chebyshev and cayley.", default=PAPERS)
    ] = None,
    layers: Annotated[
        int | None,
        option(
            NETWORK,
            "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in the place of each convolution for "
            "the others (chebyshev has none).",
            default=PAPERS,
        ),
    ] = None,
    act: Annotated[str, option(NETWORK, "Activation, e.g. relu or elu.")] = GraphsConfig.act,
    pooling: Annotated[
        str | None,
        option(
            NETWORK,
            "mean, over the nodes of a graph; or padded: their sum, divided by the nodes of the largest training "
            "graph, so that the size of a graph shows.",
            default="mean; padded on qm9",
        ),
    ] = None,
    hidden_dropout: Annotated[float, option(NETWORK, "Drop rate between the layers.")] = GraphsConfig.hidden_dropout,
    skip_dropout: Annotated[
        float | None, option(NETWORK, "Drop rate of arma's skip connections X V.", default="the paper's, or 0")
    ] = None,
    l2: Annotated[
        float | None,
        option(TRAINING, "c of the penalty c ||W||² on all kernels (its gradient is 2 c W).", default="1e-4; 0 on qm9"),
    ] = None,
    lr: Annotated[float, option(TRAINING, "Learning rate of Adam.")] = GraphsConfig.lr,
    batch: Annotated[int | None, option(TRAINING, "Graphs of a batch.", default="32; 64 on qm9")] = None,
    epochs: Annotated[int, option(TRAINING, "Most epochs of a trial.")] = GraphsConfig.epochs,
    patience: Annotated[
        int, option(TRAINING, "Epochs without improvement after which a trial stops.")
    ] = GraphsConfig.patience,
    stop_on: Annotated[
        str,
        option(
            TRAINING,
            "What must improve on validation: loss, or accuracy (of classes; the lower loss decides a tie).",
        ),
    ] = GraphsConfig.stop_on,
) -> None:
    """Train a network on whole graphs, your own or the catalogue's: classification or regression, once per seed.

    The network is convolutions, average pooling, fully connected. Integers in DS_graph_labels.txt are classes; reals in
    DS_graph_attributes.txt are targets, several by commas, which one network learns together. Nodes are described by
    degree, clustering coefficient and, where there are files of them, labels and attributes.

    The run folder gets what `armagnn train` leaves there, and how graphs are described: `armagnn predict RUN --data
    FOLDER` needs no more. Ctrl-C leaves a run that --resume continues to the same result; --resume needs no other
    options than --out.

    What is not given is the paper's value for its own datasets, and for other graphs that for Enzymes, but without
    dropout. Stopping is on validation loss, as the accuracy on a tenth of the graphs is a count of few.
    """
    if not data and resume and not out:
        raise ParameterError("out is missing: name the run folder to continue with --out FOLDER.")
    if not data and not resume:
        raise ParameterError("data is missing: name a folder of graphs with --data FOLDER.")
    folder, chosen = out or Path("runs", f"{data_name(data)}-{conv}"), graph_defaults(data, conv)
    typed = typed_options(ctx)
    if data and (is_folder(data) or data.endswith(".npz")):
        typed["data"] = os.path.abspath(data)  # a run is continued, and predicts, from wherever it is asked
    carry_out(GraphsConfig, chosen, typed, folder, resume=resume, overwrite=overwrite)


def graph_defaults(data: str, conv: str) -> dict[str, Any]:
    """The options of the paper for a dataset of its own (or else for Enzymes, without dropout) and the layers `conv`.

    Example:
        >>> graph_defaults("my/graphs", "arma")
        {'data': 'my/graphs', 'conv': 'arma', 'stacks': 2, 'layers': 2, 'skip_dropout': 0.0}
        >>> graph_defaults("enzymes", "arma")["skip_dropout"]
        0.6
        >>> graph_defaults("qm9", "gcn")["head"]
        128
    """
    papers = data in (*CLASSIFICATION, "qm9")
    stacks, layers = graph_order(data if papers else "enzymes", conv)
    chosen = {
        "data": data,
        "conv": conv,
        "stacks": stacks,
        "layers": layers,
        "skip_dropout": ORDERS[group(data)][0] if papers and conv == "arma" else 0.0,
    }
    if data == "qm9":
        chosen |= {"hidden": 64, "depth": 1, "head": 128, "pooling": "padded", "l2": 0.0, "batch": 64}
    return chosen
