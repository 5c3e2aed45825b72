"""One trial: the network trained once, from one seed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from armagnn.data import NodeDataset
from armagnn.errors import ParameterError
from armagnn.operators import GraphOperator
from armagnn.tasks import ARMANet, accuracy, cross_entropy
from armagnn.training.config import TrainConfig
from armagnn.training.stopping import EarlyStopping

OnEpoch = Callable[[int, float, float], None]


@dataclass(frozen=True, eq=False)
class Trial:
    """What one seed gave: the restored state, where it was found, and the way there.

    Attributes:
        seed: the seed, which with the configuration determines all the rest (but `seconds`).
        best_epoch: the epoch (from 1) whose weights were restored.
        val_loss: validation loss of those weights.
        val_accuracy: their validation accuracy.
        test_accuracy: their test accuracy, looked at once, after training.
        seconds: time it took.
        history: per epoch "train_loss" (under dropout, before the step), "val_loss" and "val_accuracy".
        state: the restored weights, on the CPU.
    """

    seed: int
    best_epoch: int
    val_loss: float
    val_accuracy: float
    test_accuracy: float
    seconds: float
    history: dict[str, list[float]]
    state: dict[str, Tensor]


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw from `seed` inside; outside, torch's global generators are as if nothing had been drawn."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one CPU thread inside: the last bits of a dense product may depend on the number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def build_model(config: TrainConfig, dataset: NodeDataset) -> ARMANet:
    """The network of `config` for `dataset`, with new weights from torch's global generator."""
    return ARMANet(
        dataset.num_features,
        dataset.num_classes,
        hidden=config.hidden,
        num_stacks=config.stacks,
        num_layers=config.layers,
        dropout=config.dropout,
        skip_dropout=config.skip_dropout,
        act=config.act,
        init=config.init,  # type: ignore[arg-type]  # the layer refuses other names
    )


def make_optimizer(model: nn.Module, lr: float, l2: float) -> torch.optim.Optimizer:
    """Adam on loss + l2 * sum ||W||^2 over the kernels W; biases are free.

    Keras' ``l2(c)`` has the gradient 2 c W, torch's ``weight_decay=d`` the gradient d W: hence d = 2 c.
    """
    kernels = [p for name, p in model.named_parameters() if not name.endswith("bias")]
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    groups = [{"params": kernels, "weight_decay": 2.0 * l2}, {"params": biases, "weight_decay": 0.0}]
    return torch.optim.Adam(groups, lr=lr, fused=True)


def train_trial(
    config: TrainConfig, seed: int, dataset: NodeDataset, op: GraphOperator, on_epoch: OnEpoch | None = None
) -> Trial:
    """Train the network of `config` from `seed` and restore its best state on validation.

    The result is a function of the configuration and the seed alone: not of other trials, nor of the number
    of cores, nor of what the caller drew from torch's global generator before (which is left as it was).
    `dataset` and `op` are on `config.device`.

    Example:
        >>> from armagnn.data import load
        >>> cora = load("cora")
        >>> trial = train_trial(TrainConfig(epochs=3), seed=0, dataset=cora, op=cora.operator())
        >>> len(trial.history["val_loss"]), 1 <= trial.best_epoch <= 3
        (3, True)
    """
    device = config.torch_device()
    with one_thread(), seeded(seed, device):
        # Weights are drawn on the CPU, so that a seed means the same start on every device.
        model = build_model(config, dataset).to(device)
        return _fit(model, config, seed, dataset, op, on_epoch)


def _fit(
    model: ARMANet,
    config: TrainConfig,
    seed: int,
    dataset: NodeDataset,
    op: GraphOperator,
    on_epoch: OnEpoch | None,
) -> Trial:
    start = time.perf_counter()
    optimizer = make_optimizer(model, config.lr, config.l2)
    stopping = EarlyStopping(config.stop_on, config.patience)
    history: dict[str, list[float]] = {"train_loss": [], "val_loss": [], "val_accuracy": []}
    best: dict[str, Tensor] = {}
    for epoch in range(1, config.epochs + 1):
        model.train()
        optimizer.zero_grad(set_to_none=True)
        loss = cross_entropy(model(dataset.x, op), dataset.y, dataset.train_idx)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        logits = eval_logits(model, dataset, op)
        val_loss = cross_entropy(logits, dataset.y, dataset.val_idx).item()
        val_accuracy = accuracy(logits, dataset.y, dataset.val_idx)
        if not (math.isfinite(loss.item()) and math.isfinite(val_loss)):
            raise ParameterError(f"Training diverged at epoch {epoch} (seed {seed}): lower lr (now {config.lr}).")
        history["train_loss"].append(loss.item())
        history["val_loss"].append(val_loss)
        history["val_accuracy"].append(val_accuracy)
        if stopping.improves(epoch, val_loss, val_accuracy):
            best = {name: value.detach().clone() for name, value in model.state_dict().items()}
        if on_epoch is not None:
            on_epoch(epoch, val_loss, val_accuracy)
        if stopping.exhausted(epoch):
            break
    model.load_state_dict(best)
    return Trial(
        seed=seed,
        best_epoch=stopping.best_epoch,
        val_loss=history["val_loss"][stopping.best_epoch - 1],
        val_accuracy=history["val_accuracy"][stopping.best_epoch - 1],
        test_accuracy=accuracy(eval_logits(model, dataset, op), dataset.y, dataset.test_idx),
        seconds=time.perf_counter() - start,
        history=history,
        state={name: value.cpu() for name, value in best.items()},
    )


def eval_logits(model: ARMANet, dataset: NodeDataset, op: GraphOperator) -> Tensor:
    """Logits (N, C) without dropout and without gradient."""
    model.eval()
    with torch.no_grad():
        logits: Tensor = model(dataset.x, op)
    return logits
