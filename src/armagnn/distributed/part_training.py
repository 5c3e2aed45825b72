"""Trainings over the ranks of a partition, kept in a run folder by the first rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from armagnn.distributed.cluster_loader import ClusterTask
from armagnn.distributed.collectives import copied_all
from armagnn.distributed.part_folder import GraphPart, facts_of
from armagnn.distributed.part_operator import load_part
from armagnn.distributed.part_task import PartTask, scaler_of
from armagnn.distributed.rank_groups import agreed, any_rank, ends_together, gathered, is_first, meeting_place, ranks
from armagnn.distributed.rank_groups import shared as from_first
from armagnn.errors import DataError, ParameterError, RunError
from armagnn.tasks import NodeNet
from armagnn.tasks.closing_metrics import closing_metrics, has_auc
from armagnn.training.checkpoint import CHECKPOINT, Checkpoint
from armagnn.training.experiment import Experiment, Prediction, check_memory, csv_text, outline
from armagnn.training.node_training import make_node_network
from armagnn.training.outcome import Outcome, Setting
from armagnn.training.parts_config import PartsConfig
from armagnn.training.run_folder import Run, check_vacant, make_vacant
from armagnn.training.trainer import EVERY, Observer, keep, report_kept, run_trials
from armagnn.training.trials import Trials


class PartTrials(Trials):
    """One trial over ranks: every rank holds the weights, and takes the same steps."""

    task: PartTask

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.slots: Any = _SharedSlots(self.slots, self.task.group)


class _SharedSlots:
    """The network, called with parameters whose gradients are summed over the ranks."""

    def __init__(self, slots: Any, group: dist.ProcessGroup) -> None:
        self.slots, self.group = slots, group

    def call(self, params: dict[str, Tensor], *inputs: Any) -> Any:
        """Return what the network puts out."""
        return self.slots.call(copied_all(params, self.group), *inputs)


class PartsExperiment(Experiment):
    """A partition, of which this process holds its rank's parts, and a network of convolutions on it."""

    DATA, TRIALS = GraphPart, PartTrials
    config: PartsConfig
    dataset: GraphPart

    def __init__(self, config: Any, data: Any = None) -> None:
        super().__init__(config, data)
        self.dataset.require_rows()

    @classmethod
    def load(cls, folder: str) -> GraphPart:
        """What this rank holds of a partition."""
        with ranks() as group:
            return load_part(folder, group)

    @classmethod
    def data_of(cls, folder: str) -> str:
        """The name of the data that were partitioned."""
        return str(facts_of(folder).rows.get("name", ""))

    @property
    def group(self) -> dist.ProcessGroup:
        """All ranks."""
        world = dist.group.WORLD if dist.is_initialized() else None
        if world is None:
            raise ParameterError(
                "a partition is worked on by ranks: use armagnn train and predict, or armagnn.distributed.ranks()."
            )
        return world

    @property
    def nodes_at_once(self) -> int:
        """The nodes of this rank."""
        return self.dataset.nodes

    def check_memory(self) -> None:
        """Refuse a training that must take more memory than there is; seeds are trained one after another."""
        check_memory(outline(self.network), replace(self.config, seeds=1), self.nodes_at_once)

    def network(self) -> NodeNet:
        """The network, with new weights from torch's global generator."""
        return make_node_network(self.config, int(self.dataset.facts.rows["features"]), self.dataset.outputs)

    def task(self, net: NodeNet, fold: int | None, device: torch.device) -> PartTask:
        """Loss and metrics over all ranks."""
        if self.config.clusters:
            options: dict[str, Any] = {"balance": self.config.balance, "device": device}
            return ClusterTask(
                self.dataset, net, self.group, join=self.config.clusters, seed=self.config.seed, **options
            )
        return PartTask(self.dataset, net, self.group, balance=self.config.balance, device=device)

    @cached_property
    def _task(self) -> PartTask:
        """The task on the processor, for what is looked at after training."""
        return self.task(self.network(), None, torch.device("cpu"))

    def trials(
        self,
        settings: Sequence[Setting],
        fold: int | None = None,
        device: torch.device | str = "cpu",
        other_rules: Sequence[str] = (),
    ) -> Trials:
        """One trial, ready to run; all ranks make it together."""
        if len(settings) != 1:
            raise ParameterError("over ranks one trial is trained at a time.")
        return super().trials(settings, fold, device, other_rules)

    @torch.no_grad()
    def logits(self, net: NodeNet) -> Tensor:
        """What a network puts out for the nodes of this rank, on the CPU."""
        part = self._task.parts["train"]
        found: Tensor = net(part.x, part.op)
        return found

    def closed(self, outcome: Outcome) -> Outcome:
        """A finished trial with macro-F1 and ROC-AUC, of tables of classes; all ranks call it together."""
        if not self.dataset.facts.rows.get("closing"):
            return outcome
        net = outline(self.network)
        net.load_state_dict(outcome.state, assign=True)
        logits = self.logits(net.eval())
        found: dict[str, Any] = {}
        rows = {}
        for split in ("val", "test"):
            part = self._task.parts[split]
            rows[split] = gathered(logits.index_select(0, part.idx), self.group), gathered(part.y, self.group)
        auc = all(has_auc(y, self.dataset.outputs) for _, y in rows.values())
        for split, (scores, y) in rows.items():
            found[split] = closing_metrics(scores, y, auc)
        return replace(outcome, val=outcome.val | found["val"], test=outcome.test | found["test"])

    @classmethod
    def prediction(cls, config: Any, run: Run, data: Any = None) -> Prediction:
        """What a finished run says of the nodes of its partition; the first rank gets it, the others an empty one."""
        if data is not None:
            raise ParameterError(f"{run.path}: is a run on a partition, whose nodes are all that it predicts.")
        with ranks() as group, ends_together(group):
            experiment = cls(config)
            found: Prediction = experiment.predict(experiment.trained(run))
            return found

    def predict(self, net: NodeNet) -> PartsPrediction:
        """What a network says of every node, gathered on the first rank, on the CPU."""
        part = self.dataset
        logits = self.logits(net)
        node, split = (part.tensor(name) for name in ("node", "split"))
        assert node is not None
        assert split is not None
        columns = [gathered(each, self.group) for each in (logits, node, split)]
        ids = part.arrays.get("ids")
        names: list[Any] = [None] * dist.get_world_size(self.group)
        if ids is not None:
            dist.all_gather_object(names, ids, group=self.group)
        rows = part.facts.rows
        if part.regression:
            values = scaler_of(part, "cpu").inverse(columns[0])
        else:
            values = torch.sigmoid(columns[0]) if rows["task"] == "labels" else torch.softmax(columns[0], -1)
        order = columns[1].argsort()
        called = columns[1][order].tolist() if ids is None else np.concatenate(names)[order.numpy()].tolist()
        here = order if is_first() else order[:0]
        return PartsPrediction(called[: len(here)], str(rows["id"]), tuple(rows["classes"]), str(rows["task"]),
                               values[here], columns[2][here])  # fmt: skip


@dataclass(frozen=True, eq=False)
class PartsPrediction:
    """What is predicted of the nodes of a partition, in the order that they had before.

    Attributes:
        ids: of the nodes.
        id: what the column of ids is called.
        classes: the names of the classes or labels; none of a number.
        task: "classes", "labels" or "number".
        values: (N, C) probabilities, or (N, 1) numbers in the units of the target.
        split: (N,) 0 for train, 1 for val, 2 for test, -1 for none.
    """

    ids: list[Any]
    id: str
    classes: tuple[str, ...]
    task: str
    values: Tensor
    split: Tensor
    what: str = field(default="nodes", init=False)

    def labels(self) -> list[str]:
        """The most probable class of each node; of several labels those above one half; of numbers none."""
        if self.task == "classes":
            return [self.classes[place] for place in self.values.argmax(-1).tolist()]
        found: list[list[str]] = [[] for _ in self.ids]
        for node, label in (self.values > 0.5).nonzero().tolist() if self.classes else ():
            found[node].append(self.classes[label])
        return [" ".join(each) for each in found]

    def to_csv(self) -> str:
        """A row for a node: its id, its split, its label(s) and p_CLASS; or its value."""
        parts = {0: "train", 1: "val", 2: "test"}
        columns: dict[str, Any] = {
            self.id: self.ids,
            "split": [parts.get(part, "") for part in self.split.tolist()],
        }
        if self.task == "number":
            columns["target"] = self.values.squeeze(-1).tolist()
        else:
            columns["label" if self.task == "classes" else "labels"] = self.labels()
            columns |= {f"p_{name}": p for name, p in zip(self.classes, self.values.t().tolist(), strict=True)}
        return csv_text(columns, zip(*columns.values(), strict=True))


# ------------------------------------------------------------------------------------------------------------ training


class SharedCheckpoint(Checkpoint):
    """A checkpoint that the first rank keeps and all ranks go on from."""

    def __init__(self, folder: str | Path, key: str, group: dist.ProcessGroup) -> None:
        super().__init__(folder, key)
        self.group = group

    def save(self, state: dict[Any, Any]) -> None:
        """Replace the checkpoint; the states of all ranks are the same."""
        if is_first():
            super().save(state)

    def load(self) -> dict[Any, Any] | None:
        """The state that the first rank saved last, on all ranks; they call this together."""
        found = None
        with agreed(self.group):
            found = super().load() if is_first() else None
        return from_first(found, self.group)

    def clear(self) -> None:
        """Remove the checkpoint."""
        if is_first():
            super().clear()


def train_parts(
    config: PartsConfig | None,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    observer: Observer | None = None,
    changes: dict[str, Any] | None = None,
) -> Run | None:
    """Train over the ranks that torchrun or Ray Train started, or in this process alone; all ranks call it together.

    As `armagnn.training.train`, but that trials are trained one after another, and that a run which was interrupted, or
    whose ranks died, goes on without `resume`: the same call, on as many ranks as before or on others, ends as one that
    was not interrupted, up to the order in which sums over ranks are taken. The first rank keeps the run folder, and
    gets the run; the others get None.

    Args:
        config: what to train; the first rank's counts. None with `resume`: that of the run.
        out: the run folder.
        resume: there must be a run to go on with.
        overwrite: replace the run in the folder.
        observer: sees how training goes, on the first rank.
        changes: options that were typed besides `resume`.

    Example:
        >>> train_parts(PartsConfig(parts="parts", seeds=1), "runs/parts")  # doctest: +SKIP
    """
    if resume and overwrite:
        raise ParameterError("resume and overwrite exclude each other: continue the run or replace it.")
    out = Path(out)
    device = _device_of(out) if config is None else config.device
    with ranks(device) as group, ends_together(group):
        run: Run | None = None
        with agreed(group):
            if is_first():
                run, config = _opened(out, config, resume=resume, overwrite=overwrite, changes=changes or {})
        plain = from_first(None if config is None else config.to_json(), group)
        with agreed(group):
            config = PartsConfig.from_json(plain)
            experiment = PartsExperiment(config)
            experiment.check_memory()
        digests: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(digests, experiment.dataset.facts.to_json(), group=group)
        if any(digest != digests[0] for digest in digests):
            raise DataError(f"{config.parts}: the ranks hold parts of different partitions. Copy one to all machines.")
        watching = (observer if is_first() else None) or Observer()
        missing: list[str] = []
        with agreed(group):
            if is_first():
                if run is None:
                    make_vacant(out)
                    run = Run.create(out, config, experiment.sha256)
                run.check_data(experiment.sha256)
                watching.start(config.seeds)
                missing = report_kept([str(seed) for seed in config.all_seeds], run, watching)
        _train_missing(experiment, from_first(missing, group), out, run, watching, group)
        with agreed(group):
            if run is not None:
                if not run.complete:
                    run.finish()
                run.checkpoint.clear()
        return run


def _device_of(out: Path) -> str:
    """The device of the run that is to go on; of what is none, which `_opened` refuses, the processor."""
    try:
        return Run.open(out).config.device
    except RunError:
        return "cpu"


def _opened(
    out: Path, config: PartsConfig | None, *, resume: bool, overwrite: bool, changes: dict[str, Any]
) -> tuple[Run | None, PartsConfig]:
    """The run to go on with, if there is one, and the configuration; nothing is changed."""
    if not overwrite:
        begun = None
        try:
            begun = Run.open(out)
        except RunError:
            if resume:
                raise
        if begun is not None and (resume or not begun.complete):
            if not isinstance(begun.config, PartsConfig):
                raise RunError(f"{out}: is a run on {begun.config.kind}. Continue with: {begun.resume_command}")
            wanted = replace(begun.config, **changes) if config is None else config
            changed = begun.config.differences(wanted)
            if changed:
                raise RunError(
                    f"{out}: cannot be resumed with other options ({'; '.join(changed)}). "
                    "Give them as before, or choose another folder."
                )
            return begun, wanted
    if config is None:
        raise ParameterError("out is missing: name the run folder to continue with --out FOLDER.")
    check_vacant(out, overwrite=overwrite)
    return None, config


def _train_missing(
    experiment: PartsExperiment, missing: list[str], out: Path, run: Run | None, observer: Observer,
    group: dist.ProcessGroup,
) -> None:  # fmt: skip
    config = experiment.config
    device = config.torch_device()
    if device.type == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
    assert meeting_place(group) is not None
    for seed in map(int, missing):
        setting = experiment.setting(seed)
        trials = experiment.trials([setting], device=device)
        finished = run_trials(
            trials, SharedCheckpoint(out, CHECKPOINT, group), observer=observer if is_first() else None, every=EVERY,
            agree=lambda came: any_rank(came, group),
        )  # fmt: skip
        for outcome in finished:
            if outcome is not None:
                closed = experiment.closed(outcome.require_converged())
                with agreed(group):
                    if run is not None:
                        keep(closed, run, observer)
        observer.batch()
