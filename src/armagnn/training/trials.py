"""Trials are an axis: R trainings of one network on the same data, as one training.

Parameters have one more axis, of length R; torch's vmap carries it through the network, where the kernels fold
it into the feature axis of one product, or take the trials one by one. Each trial has its own initial weights, masks,
learning rate, L2 weight, drop rates and early stopping, and gives what it would give alone: initial weights and the
seeds of its masks are functions of its seed, and nothing mixes the trials but the order in which a sum is taken.

On a GPU a step, and validation and early stopping after an epoch, are recorded once and replayed without waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, cast

import torch
from torch import Tensor, nn

from armagnn import checks
from armagnn.arguments import checked
from armagnn.errors import ParameterError, RunError, shown
from armagnn.kernels import backend
from armagnn.nn.conv import Zero
from armagnn.processors import Threads, surroundings
from armagnn.randomness import keys, source
from armagnn.tasks.contract import Room, Task, drawn, of_one, weights_of
from armagnn.torch_private import Slots, over_trials
from armagnn.training.cuda_graphs import EAGER, Recorder, make_current
from armagnn.training.outcome import ALL_RULES, Keeper, Outcome, Setting, check_state, check_stopping
from armagnn.training.shared_options import MOST_EPOCHS, MOST_TRIALS

DRAWS: Final = 64
"""Seeds of masks for one forward pass; a deep network has more, see `Trials.draws`."""

AHEAD: Final = 128
"""Steps whose seeds are drawn at a time."""

SEEDS_BYTES: Final = 8 * AHEAD * DRAWS
"""Bytes of these seeds, of a trial."""

LOOK: Final = {"cpu": 5, "cuda": 25}
"""Steps between two looks at who has stopped (epochs are not broken up); a look waits for the device, and changes no
result."""
TURN: Final = 8
"""Steps that are queued on a GPU between two turns of other trainings."""

LONG: Final = 1.0
"""Seconds of a validation on a CPU beyond which compiling is no large part of it."""


class Trials:
    """R trainings of one network as one: Adam, validation after every epoch, early stopping by trial.

    Args:
        build: makes the network (what it must have, `TaskNet` says), with weights from torch's global generator.
        task: what the network is trained for, on the device.
        settings: one for each trial.
        epochs: most epochs of a trial.
        patience: epochs without improvement after which a trial stops.
        stop_on: "loss", "accuracy" or "roc_auc" (where equal, the lower loss is better), on validation; or "last".
        other_rules: rules whose results are reported, too (see `Keeper`); a trial runs until all rules have stopped it.
        device: where to train.
        dtype: of the parameters.

    Example:
        >>> from armagnn.data import load
        >>> from armagnn.tasks import NodeNet, NodeTask
        >>> cora = load("cora")
        >>> build = lambda: NodeNet("arma", cora.num_features, cora.num_classes)
        >>> settings = [Setting(seed, lr=0.01, l2=5e-4, rates=(0.5, 0.5, 0.5)) for seed in range(3)]
        >>> trials = Trials(build, NodeTask(cora, build()), settings, epochs=4, patience=9, stop_on="loss")
        >>> sorted(outcome.epochs for outcome in trials.run())
        [4, 4, 4]
    """

    @checked
    def __init__(
        self,
        build: Callable[[], nn.Module],
        task: Task,
        settings: Sequence[Setting],
        *,
        epochs: int,
        patience: int,
        stop_on: str,
        other_rules: Sequence[str] = (),
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        check_stopping(stop_on, patience)
        checks.integer("epochs", epochs, 1, MOST_EPOCHS)
        for rule in other_rules:
            checks.choice("stopping rule", rule, ALL_RULES)
        if not 0 < len(settings) <= MOST_TRIALS or len({len(setting.rates) for setting in settings}) != 1:
            raise ParameterError(
                f"settings must be 1 to {MOST_TRIALS}, with as many drop rates each, got {shown(settings)}."
            )
        self.task, self.epochs, self.patience, self.rules = task, epochs, patience, (stop_on, *other_rules)
        self.device = checks.device(device)
        if self.device.type == "cuda":
            make_current(self.device)
        self.settings = list(settings)
        networks: list[Any] = [drawn(build, setting.seed, dtype) for setting in settings]
        self.network = cast(Any, networks[0].to(self.device))
        self.slots = Slots(self.network)
        states = [weights_of(network) for network in networks]
        self.learned = {name for name, _ in self.network.named_parameters()}
        self.draws = max(DRAWS, 2 * sum(1 for _ in self.network.modules()))  # more seeds leave the first as they are
        self.axes = {name: self.network.trial_axis(name) for name in states[0]}
        self.params = {
            name: torch.stack([state[name].detach().cpu() for state in states], self.axes[name]).to(self.device)
            for name in states[0]
        }
        self._start()

    # ---------------------------------------------------------------------------------------------------------- state

    def _start(self) -> None:
        trials, device = len(self.settings), self.device

        def numbers(values: Sequence[float]) -> Tensor:
            return torch.tensor(values, dtype=torch.float64, device=device)

        for name in self.learned:
            self.params[name].requires_grad_()
        self.mean = {name: torch.zeros_like(param) for name, param in self.params.items()}
        self.square = {name: torch.zeros_like(param) for name, param in self.params.items()}
        self.keepers = [Keeper(rule, self.patience, self.params, self.axes, trials) for rule in self.rules]
        self.seed = torch.tensor([setting.seed for setting in self.settings], device=device)
        self.lr = numbers([setting.lr for setting in self.settings])
        self.decay = numbers([2.0 * setting.l2 for setting in self.settings])
        self.rates = numbers([setting.rates for setting in self.settings])  # type: ignore[misc]
        self.free = torch.zeros_like(self.decay)
        self.target = torch.tensor([setting.target for setting in self.settings], device=device)
        self.active = torch.ones(trials, dtype=torch.bool, device=device)
        self.losses = torch.zeros(trials, dtype=torch.float64, device=device)
        self.history = torch.full((self.epochs, 3, trials), torch.nan, dtype=torch.float64, device=device)
        self.epoch = torch.zeros(1, dtype=torch.int64, device=device)
        self.step = torch.zeros(1, dtype=torch.int64, device=device)  # of this epoch
        self.seeds = torch.zeros(AHEAD, trials, self.draws, dtype=torch.int64, device=device)
        self.done, self._ready = 0, -1
        self.spent = [0.0] * trials

    def state(self) -> dict[str, Any]:
        """All that training goes on from, as a nested dict of tensors and plain numbers."""
        return {
            "params": {name: param.detach() for name, param in self.params.items()},
            "mean": self.mean, "square": self.square, "keepers": {k.rule: k.state() for k in self.keepers},
            "active": self.active, "history": self.history[: self.done].clone(), "done": self.done,
            "spent": self.spent,
            "settings": [[s.seed, s.lr, s.l2, s.target, *s.rates] for s in self.settings],
        }  # fmt: skip

    @checked
    def restore(self, state: Mapping[str, Any], settings: Sequence[Setting]) -> bool:
        """Go on from a `state` with the trials of `settings`; False, and nothing done, if it does not have them all.

        A state of other trials, or a damaged one, is a `RunError`, and nothing is done either.
        """
        try:
            saved = [Setting(seed, lr, l2, tuple(rates), target) for seed, lr, l2, target, *rates in state["settings"]]
            if len({len(setting.rates) for setting in (*saved, *settings)}) != 1:
                raise ValueError("other numbers of drop rates")
            check_state(state, len(saved), self)
            if not set(settings) <= set(saved):
                return False
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RunError(f"not a state of these trials: {error}") from error
        self.settings = saved
        self.params = {name: value.to(self.device).clone() for name, value in state["params"].items()}
        self._start()
        for name in ("mean", "square"):
            setattr(self, name, {key: value.to(self.device).clone() for key, value in state[name].items()})
        for keeper in self.keepers:
            keeper.restore(state["keepers"][keeper.rule])
        self.active = state["active"].to(self.device).clone()
        self.done, self.spent = int(state["done"]), list(state["spent"])
        self.history[: self.done] = state["history"].to(self.device)
        self.epoch.fill_(self.done)
        self._draw_seeds(self.done * self.task.steps)
        self._keep([index for index, setting in enumerate(saved) if setting in set(settings)])
        return True

    # ---------------------------------------------------------------------------------------------------------- epoch

    def _mapped(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Apply a function of one trial to all; the results have the trials as their first axis."""
        params, *others = arguments
        function = of_one(function)
        if len(self.settings) > 1:
            return over_trials(function, len(self.settings), self.axes, params, *others)
        alone = {name: param.squeeze(self.axes[name]) for name, param in params.items()}
        results = function(alone, *(other.squeeze(0) for other in others))
        if isinstance(results, dict):
            return {name: value.unsqueeze(0) for name, value in results.items()}
        return results.unsqueeze(0)

    def _metrics(self, params: dict[str, Tensor], split: str) -> dict[str, Tensor]:
        self.network.eval()

        def single(params: dict[str, Tensor], target: Tensor) -> dict[str, Tensor]:
            return self.task.metrics(partial(self.slots.call, params), split, target)

        with torch.no_grad():
            found: dict[str, Tensor] = self._mapped(single, params, self.target)
        return found

    def _one_step(self, room: Room) -> None:
        """Take one step of Adam in every trial, on a batch with that room, and note the losses before it."""
        self.network.train()
        count, batch = self.epoch * self.task.steps + self.step, self.task.batch(self.step, room)
        seeds = self.seeds.index_select(0, count % AHEAD).squeeze(0)
        drops = [any(rates) for rates in zip(*(setting.rates for setting in self.settings), strict=True)]

        def single(params: dict[str, Tensor], seeds: Tensor, rates: Tensor, target: Tensor) -> Tensor:
            # tensors, alone too; and what no trial drops is not gone through, but takes its seed
            self.network.set_rates(*(p if any_ else Zero() for p, any_ in zip(rates.unbind(0), drops, strict=True)))
            with source(seeds):
                return self.task.loss(partial(self.slots.call, params), batch, target)

        losses: Tensor = self._mapped(single, self.params, seeds, self.rates, self.target)
        learned = {name: param for name, param in self.params.items() if name in self.learned}
        gradients = torch.autograd.grad(losses.sum(), list(learned.values()), allow_unused=True)
        adam, count = backend(self.device).adam, (count + 1).double().squeeze(0)
        undecayed = getattr(self.network, "undecayed", ())
        with torch.no_grad():
            for (name, param), gradient in zip(learned.items(), gradients, strict=True):
                if gradient is not None:
                    free = name.endswith("bias") or param.dim() < 3 or name.startswith(undecayed)
                    decay = self.free if free else self.decay
                    tensors = (param.detach(), gradient, self.mean[name], self.square[name])
                    adam(*tensors, self.lr, decay, count, self.axes[name])
            self.losses += losses.detach()
            self.step += 1

    def _judge(self) -> None:
        """Validate after the last step of an epoch, and let every rule see it."""
        found = self._metrics(self.params, "val")
        leak = self._metrics(self.params, "test") if "leak" in self.rules else found
        with torch.no_grad():
            loss = found["loss"].double()
            accuracy = found.get("accuracy", torch.full_like(loss, torch.nan))  # a regression has none
            row = torch.stack([self.losses / self.task.steps, loss, accuracy])
            self.history.index_copy_(0, self.epoch, row.unsqueeze(0))
            self.epoch += 1
            self.active.zero_()
            for keeper in self.keepers:
                seen, name = (
                    leak if keeper.rule == "leak" else found,
                    "roc_auc" if keeper.rule == "roc_auc" else "accuracy",
                )
                keeper.judge(self.epoch, seen["loss"].double(), seen.get(name, accuracy), self.params)
                self.active |= keeper.active
            self.losses.zero_()
            self.step.zero_()

    def _draw_seeds(self, step: int) -> None:
        ahead = range(first := step // AHEAD * AHEAD, first + AHEAD)
        self.seeds.copy_(keys(self.seed, ahead, self.draws))

    # ------------------------------------------------------------------------------------------------------------ run

    @checked
    def run(self, look: Callable[[Trials], None] | None = None) -> Iterator[Outcome]:
        """Train, and yield every trial when it has stopped; ``look(self)`` is called between epochs now and then."""
        return (outcome for outcome in self.in_turns(look) if outcome is not None)

    @checked
    def in_turns(self, look: Callable[[Trials], None] | None = None) -> Iterator[Outcome | None]:
        """As `run`; on a GPU also None, again and again: work is queued, and other trainings may queue theirs."""
        with self._surroundings() as threads:
            do = self._doer()
            between = -(-LOOK.get(self.device.type, 5) // self.task.steps)
            while self.settings:
                began, start, trials = time.perf_counter(), self.done, len(self.settings)
                until = min(self.epochs, self.done + between)
                while self.done < until:
                    yield from self._one_epoch(do)
                yield from self._wait()
                if threads is not None:
                    threads.round(time.perf_counter() - began, (self.done - start) * trials)
                active = self.active.tolist() if self.done < self.epochs else [False] * trials
                self.spent = [spent + (time.perf_counter() - began) / trials for spent in self.spent]
                stopped = [index for index in range(trials) if not active[index]]
                # a batch is made smaller where that pays: at once on a processor, by halves where epochs are recorded
                if stopped and (self.device.type == "cpu" or 2 * len(stopped) >= trials):
                    yield from self._outcomes(stopped)
                    self._keep([index for index in range(trials) if active[index]])
                    do = self._doer()
                if look is not None:
                    look(self)

    def _doer(self) -> Callable[..., None]:
        """Return what does a piece of work: on a GPU, after a few times, as one launch of what was recorded of it."""
        return Recorder(self.device).do if self.device.type == "cuda" else lambda work, *given: work(*given)

    def _surroundings(self) -> AbstractContextManager[Threads | None]:
        return surroundings(self.device, len(self.settings) == 1 and bool(getattr(self.task, "small", False)))

    @checked
    def probe(self, steps: int = 5) -> float:
        """Return about how many seconds an epoch takes, from a few steps and one validation; train no more with it."""
        do, on_gpu = self._doer(), self.device.type == "cuda"

        def seconds(work: Callable[..., None], times: int, *given: Room) -> float:
            began = time.perf_counter()
            for _ in range(times):
                self.step.zero_()
                self.epoch.zero_()
                do(work, *given)
            if on_gpu:
                torch.cuda.synchronize(self.device)
            return (time.perf_counter() - began) / times

        with self._surroundings():
            self.task.start(0)
            self._draw_seeds(0)
            room, first = self.task.room(0), EAGER + 1 if on_gpu else 1
            seconds(self._one_step, first, room)  # compiles what is to be compiled
            one = seconds(self._one_step, min(steps, self.task.steps), room)
            judged = seconds(self._judge, first)
            if on_gpu or judged <= LONG:  # on a CPU, the steps have compiled what a long validation needs
                judged = seconds(self._judge, 1)
        return self.task.steps * one + judged

    def _one_epoch(self, do: Callable[..., None]) -> Iterator[None]:
        steps = self.task.steps
        self._get_ready()
        for step in range(self.done * steps, (self.done + 1) * steps):
            if step % AHEAD == 0:
                self._draw_seeds(step)
            do(self._one_step, self.task.room(step - self.done * steps))
            if self.device.type == "cuda" and step % TURN == 0:
                yield None
        do(self._judge)
        self.done += 1
        if self.device.type == "cuda" and self.done < self.epochs:
            self._get_ready()  # while the device is at work

    def _wait(self) -> Iterator[None]:
        """Let others work until a GPU has done what is queued here."""
        if self.device.type == "cuda":
            queued = torch.cuda.current_stream(self.device).record_event()
            while not queued.query():
                yield None

    def _get_ready(self) -> None:
        """Order the batches of the next epoch, unless that is done."""
        if self._ready != self.done:
            self.task.start(self.done)
            self._ready = self.done

    def _outcomes(self, stopped: list[int]) -> Iterator[Outcome]:
        first, *others = self.keepers
        val, test = _lists(self._metrics(first.kept, "val")), _lists(self._metrics(first.kept, "test"))
        other_rules = {keeper.rule: _lists(self._metrics(keeper.kept, "test")) for keeper in others}
        columns = ("train_loss", "val_loss", *(["val_accuracy"] if "accuracy" in val else []))
        best, history = first.best_epoch.tolist(), self.history[: self.done].cpu()
        for index in stopped:
            epochs = min(self.done, best[index] + self.patience)
            rows = history[:epochs, :, index].t().tolist()
            yield Outcome(
                self.settings[index],
                best[index],
                epochs,
                {name: values[index] for name, values in val.items()},
                {name: values[index] for name, values in test.items()},
                self.spent[index],
                dict(zip(columns, rows, strict=False)),
                {name: value.select(self.axes[name], index).cpu().clone() for name, value in first.kept.items()},
                {rule: {name: values[index] for name, values in found.items()} for rule, found in other_rules.items()},
            )

    def _keep(self, indices: list[int]) -> None:
        """Go on with some of the trials only."""
        chosen = torch.tensor(indices, dtype=torch.int64, device=self.device)
        for name in ("params", "mean", "square"):
            old: dict[str, Tensor] = getattr(self, name)
            setattr(self, name, {k: v.detach().index_select(self.axes[k], chosen) for k, v in old.items()})
        for name in self.learned:
            self.params[name].requires_grad_()
        for keeper in self.keepers:
            keeper.select(chosen)
        for name in ("seed", "lr", "decay", "rates", "free", "target", "active", "losses"):
            setattr(self, name, getattr(self, name).index_select(0, chosen))
        self.history, self.seeds = self.history.index_select(2, chosen), self.seeds.index_select(1, chosen)
        self.settings = [self.settings[index] for index in indices]
        self.spent = [self.spent[index] for index in indices]


def _lists(found: dict[str, Tensor]) -> dict[str, list[float]]:
    return {name: values.tolist() for name, values in found.items()}
