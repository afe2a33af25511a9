"""The training loop: the epoch with the least validation error wins; every epoch leaves a checkpoint.

Nothing random is kept between epochs (split and order follow from seed and epoch), so a training that was
interrupted and resumed ends with the weights of one that was not, on the same machine and thread count.

A net can die: its weights become NaN, all its ReLUs close and it answers every row alike, or it saturates:
what turns its outputs into seconds no longer depends on them, so that nothing teaches it. One that dies in
its first epochs starts again from other initial weights; one that dies later ends, and its best epoch counts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from perfcast.core.arrays import Floats, Integers
from perfcast.errors import InputError
from perfcast.evidence.train.task import Float32Array, Outcome, Task, fingerprint, split_rows
from perfcast.files.lock import StoreWarning, hold_lock
from perfcast.files.records import set_aside
from perfcast.published.nets.archive import Archive, read_archive, write_archive
from perfcast.torch_internals.onednn import fast_linear_layers

#: Called after each epoch with (task, epochs done, epochs wanted, validation error, least one so far).
Progress = Callable[[str, int, int, float, float], None]

_VALIDATION_BATCH = 4096
_EARLY_EPOCHS = 20
_MAX_ATTEMPTS = 5
_ATTEMPT_STRIDE = 1_000_003  # apart from each other in the seeds that people choose


@dataclass
class _State:
    """A training between two epochs; ``deaths`` are the epochs after which earlier attempts were dead."""

    net: nn.Module
    optimizer: torch.optim.AdamW
    deaths: tuple[int, ...]
    epoch: int
    best: dict[str, Float32Array]
    best_mape: float
    best_epoch: int
    ratios: tuple[float, float]
    died_at: int | None

    @property
    def may_restart(self) -> bool:
        """Whether it died so early that other initial weights are tried."""
        return (
            self.died_at is not None
            and self.died_at <= _EARLY_EPOCHS
            and len(self.deaths) < _MAX_ATTEMPTS - 1
        )


@dataclass(frozen=True)
class _Examples:
    """A task's arrays as tensors, and which rows train and which validate."""

    inputs: Tensor
    context: Tensor
    seconds: Tensor
    train: Integers
    validation: Integers


def train(task: Task, seed: int, num_epochs: int, folder: Path, progress: Progress | None = None) -> Outcome:
    """Train one net, from its checkpoint in ``folder`` if there is one.

    A checkpoint that is damaged is named and set aside (``.damaged``), and the training begins anew.

    Raises:
        InputError: The checkpoint belongs to other data, another recipe or seed; another process trains the
            same; or every attempt died in its first epoch.
    """
    place = folder / f"{task.name}.checkpoint.npz"
    with hold_lock(place, elsewhere="name another folder with --output"):
        return _train(task, seed, num_epochs, place, progress)


def _train(task: Task, seed: int, num_epochs: int, place: Path, progress: Progress | None) -> Outcome:
    key = fingerprint(task, seed)
    parts = split_rows(len(task.seconds), task.recipe.train_fraction, seed)
    inputs, context, seconds = (torch.from_numpy(a) for a in (task.inputs, task.context, task.seconds))
    examples = _Examples(inputs, context, seconds, *parts)
    archive = _read_checkpoint(place)
    state = _start(task, seed, ()) if archive is None else _restore(task, place, archive, key)
    with _flushed_denormals(), fast_linear_layers():
        while state.epoch < num_epochs and state.died_at is None:
            _run_epoch(task, state, examples, seed)
            error = _validate(task, state, examples)
            if state.died_at and state.may_restart:
                state = _start(task, seed, (*state.deaths, state.died_at))
            _save(state, place, key)
            if progress:
                progress(task.name, state.epoch, num_epochs, error, state.best_mape)
    if not state.best:
        raise InputError(f"{task.name}: every attempt died in its first epoch; try another --seed")
    return _outcome(task, state, examples)


def _start(task: Task, seed: int, deaths: tuple[int, ...]) -> _State:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + _ATTEMPT_STRIDE * len(deaths))
        net = task.build()
    optimizer = torch.optim.AdamW(net.parameters(), lr=task.recipe.learning_rate, fused=True)
    return _State(net, optimizer, deaths, 0, {}, math.inf, 0, (1.0, 1.0), None)


def _run_epoch(task: Task, state: _State, examples: _Examples, seed: int) -> None:
    order = np.random.default_rng([seed, len(state.deaths), state.epoch]).permutation(examples.train)
    state.net.train()
    for start in range(0, len(order), task.recipe.batch_size):
        index = torch.from_numpy(order[start : start + task.recipe.batch_size])
        state.optimizer.zero_grad()
        predicted = task.answer(state.net(examples.inputs[index]), examples.context[index])
        task.loss(predicted, examples.seconds[index]).backward()  # type: ignore[no-untyped-call]
        state.optimizer.step()
    state.epoch += 1


def _validate(task: Task, state: _State, examples: _Examples) -> float:
    """Measure the error on the rows kept back; keep the weights if it is the least so far."""
    outputs, predicted = _predict(task, state.net, examples)
    measured = examples.seconds[examples.validation].numpy().astype(np.float64)
    error = float(np.mean(np.abs(predicted - measured) / measured))
    if not math.isfinite(error) or _is_constant(outputs) or _is_saturated(task, outputs, examples):
        state.died_at = state.epoch
    elif error < state.best_mape:
        state.best_mape, state.best_epoch = error, state.epoch
        state.ratios = measured_ratios(measured, predicted)
        state.best = {name: value.numpy().copy() for name, value in state.net.state_dict().items()}
    return error


def _predict(task: Task, net: nn.Module, examples: _Examples) -> tuple[Tensor, Floats]:
    """The net's outputs on the validation rows, and seconds, never negative."""
    net.eval()
    with torch.inference_mode():
        rows = torch.from_numpy(examples.validation)
        outputs = torch.cat([net(examples.inputs[part]) for part in torch.split(rows, _VALIDATION_BATCH)])
        predicted = task.answer(outputs, examples.context[rows])
    return outputs, predicted.clamp_min(0.0).numpy().astype(np.float64)


def measured_ratios(measured: Floats, predicted: Floats) -> tuple[float, float]:
    """5th and 95th percentile of measured / predicted where anything is predicted; (1, 1) if nothing is.

    Args:
        measured, predicted: Seconds, shape [n] each; predictions may be NaN.
    """
    timed = predicted > 0
    if not timed.any():
        return 1.0, 1.0
    low, high = np.quantile(measured[timed] / predicted[timed], (0.05, 0.95))
    return float(low), float(high)


def _is_constant(outputs: Tensor) -> bool:
    """Whether a net answers all of several rows alike, to rounding."""
    spread = outputs.amax(dim=0) - outputs.amin(dim=0)
    return len(outputs) > 1 and bool((spread <= 1e-6 * (1 + outputs.abs().amax(dim=0))).all())


def _is_saturated(task: Task, outputs: Tensor, examples: _Examples) -> bool:
    """Whether no prediction moves by a millionth of itself for any output that moves by 1."""
    free = outputs.clone().requires_grad_()
    predicted = task.answer(free, examples.context[torch.from_numpy(examples.validation)])
    (slopes,) = torch.autograd.grad(predicted.sum(), free)
    return bool((slopes.abs().amax(dim=1) <= 1e-6 * predicted.detach().abs()).all())


def _outcome(task: Task, state: _State, examples: _Examples) -> Outcome:
    return Outcome(
        name=task.name,
        weights=state.best,
        validation_mape=state.best_mape,
        ratio_low=state.ratios[0],
        ratio_high=state.ratios[1],
        best_epoch=state.best_epoch,
        num_epochs=state.epoch,
        died_at=state.died_at,
        deaths=state.deaths,
        num_train=len(examples.train),
        num_validation=len(examples.validation),
    )


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Treat numbers below the normal range as zero: decayed moments would make steps many times slower."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


# ---- checkpoints ------------------------------------------------------------------------------


def _save(state: _State, place: Path, key: str) -> None:
    arrays: dict[str, NDArray[Any]] = {f"best.{name}": value for name, value in state.best.items()}
    for name, value in state.net.state_dict().items():
        arrays[f"net.{name}"] = value.numpy()
    for index, moments in state.optimizer.state_dict()["state"].items():
        for name, value in moments.items():
            arrays[f"optimizer.{index}.{name}"] = value.numpy()
    notes = {
        "key": key,
        "epoch": state.epoch,
        "best_mape": state.best_mape,
        "best_epoch": state.best_epoch,
        "ratios": list(state.ratios),
        "died_at": state.died_at,
        "deaths": list(state.deaths),
    }
    write_archive(place, Archive(arrays, notes))


def _read_checkpoint(place: Path) -> Archive | None:
    """None where there is none, or none that can be read."""
    if not place.exists():
        return None
    try:
        return read_archive(place)
    except InputError as error:
        kept = set_aside(place, "damaged")
        said = f"{error}. It is kept as {kept}, and the training begins anew"
        warnings.warn(said, StoreWarning, stacklevel=4)
        return None


def _restore(task: Task, place: Path, archive: Archive, key: str) -> _State:
    notes = archive.notes
    if notes.get("key") != key:
        raise InputError(
            f"{place} was left by a training on other data, or with another recipe or seed; "
            f"delete it, or name another folder with --output"
        )
    state = _start(task, 0, tuple(notes["deaths"]))
    state.net.load_state_dict({k: torch.from_numpy(v) for k, v in _under(archive, "net.").items()})
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in _under(archive, "optimizer.").items():
        index, _, moment = name.partition(".")
        moments.setdefault(int(index), {})[moment] = torch.from_numpy(value)
    state.optimizer.load_state_dict({**state.optimizer.state_dict(), "state": moments})
    state.best = _under(archive, "best.")
    state.epoch, state.died_at = notes["epoch"], notes["died_at"]
    state.best_mape, state.best_epoch = notes["best_mape"], notes["best_epoch"]
    state.ratios = (notes["ratios"][0], notes["ratios"][1])
    return state


def _under(archive: Archive, prefix: str) -> dict[str, Float32Array]:
    return {k.removeprefix(prefix): v for k, v in archive.arrays.items() if k.startswith(prefix)}
