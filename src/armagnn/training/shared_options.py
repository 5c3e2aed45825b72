"""The options that the configurations of several kinds of tasks share: their help, panels, limits and layers."""

from __future__ import annotations

from dataclasses import field
from importlib.metadata import entry_points
from typing import Any, Final

DATA, RUN, NETWORK, TRAINING, TABLES = "Data", "Run", "Network", "Training", "Tables"
"""The panels of the help in which options stand."""

PAPERS: Final = "the paper's"

MOST_UNITS: Final = 2**16
"""The most units of a layer, and the most graphs of a batch."""

MOST_STEPS: Final = 1000
"""The most stacks, steps of a recursion, and layers."""

MOST_TRIALS: Final = 4096
"""The most trials of a run, and of a batch."""

MOST_EPOCHS: Final = 10**6
"""The most epochs of a training."""

MOST_PATIENCE: Final = 2**62
"""More than any training has epochs, and an epoch more still fits into 64 bits."""

LAYERS: Final = (
    "arma", "rational", "gcn", "chebyshev", "cayley", "gpr", "bernstein", "jacobi", "gat", "sage", "gin", "mlp",
)  # fmt: skip
"""The names that `make_conv` knows; here, too, as the help shall not wait for the layers (a test compares them)."""

SHARED: Final[dict[str, tuple[str, str]]] = {
    "conv": ("The layers: {layers}.", RUN),
    "stacks": ("K: stacks of arma, order of rational, chebyshev, cayley, gpr, bernstein and jacobi.", NETWORK),
    "layers": (
        "T: recursion steps of arma, Jacobi iterations of cayley. L: layers in the place of each convolution for "
        "the others (rational, chebyshev, gpr, bernstein and jacobi have none).",
        NETWORK,
    ),
    "head": ("Units of a hidden fully connected layer; 0: none.", NETWORK),
    "skip_dropout": ("Drop rate of arma's skip connections X V.", NETWORK),
    "l2": ("c of the penalty c ||W||² on all kernels (its gradient is 2 c W).", TRAINING),
    "lr": ("Learning rate of Adam.", TRAINING),
    "epochs": ("Most epochs of a trial.", TRAINING),
    "patience": ("Epochs without improvement after which a trial stops.", TRAINING),
    "stop_on": (
        "What must improve on validation: loss, accuracy, or roc_auc of data that are judged by it (the lower loss "
        "decides a tie). last: stop as on loss, but keep the weights of the last epoch.",
        TRAINING,
    ),
    "seed": ("Seed of the first trial; the next are seed + 1, ...", RUN),
    "seeds": ("Number of trials, one per seed; they are trained together.", RUN),
    "device": ("cpu, cuda or cuda:1.", RUN),
}
"""The help and the panel of options that several kinds of tasks have."""


def option(default: Any, help: str = "", panel: str = NETWORK, shown: str = "", flag: str = "") -> Any:
    """A field of a configuration that is an option of its command, too.

    Args:
        default: of the field.
        help: what the option means; a field without help is no option.
        panel: where the help shows it.
        shown: what the help shows as the default, where that depends on the data.
        flag: how the option is typed, where that is not its name with two dashes.
    """
    metadata = {"help": help, "panel": panel, "shown": shown or str(default), "flag": flag}
    return field(default=default, metadata=metadata)


def shared(name: str, default: Any, shown: str = "") -> Any:
    """An option of `SHARED`, with the default that it has for this kind of task."""
    help, panel = SHARED[name]
    return option(default, help, panel, shown)


def layer_names() -> list[str]:
    """The names of the layers: those of this package, and those of packages that are installed."""
    return [*LAYERS, *(entry.name for entry in entry_points(group="armagnn.layers"))]
