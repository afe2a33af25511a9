"""Training: reproducible, resumable, and honest about nets that die."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from perfcast.errors import InputError
from perfcast.evidence.train.loop import train
from perfcast.evidence.train.task import Recipe, Task, fingerprint, relative_error, split_rows, summary
from perfcast.files.lock import StoreWarning
from perfcast.published.nets.mlp import build_mlp


def first_output(outputs: Tensor, context: Tensor) -> Tensor:
    return outputs[:, 0] * context[:, 0]


def small_net() -> nn.Module:
    return build_mlp(2, 1, 8, 3)


def dead_net() -> nn.Module:
    """A net whose only hidden unit is closed for every input that it will see."""
    net = build_mlp(2, 1, 1, 2)
    with torch.no_grad():
        net[0].weight.zero_()
        net[0].bias.fill_(-1e3)
        net[2].bias.fill_(1.0)
    return net


def make_task(build: Callable[[], nn.Module] = small_net, learning_rate: float = 1e-2) -> Task:
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(60, 2)).astype(np.float32)
    seconds = (2 + np.tanh(inputs[:, 0])).astype(np.float32)
    ones = np.ones((60, 1), dtype=np.float32)
    return Task("net", build, inputs, ones, seconds, first_output, relative_error, Recipe(learning_rate, 8))


def test_equal_seeds_give_equal_weights_and_others_do_not(tmp_path: Path):
    results = []
    for place, seed in (("a", 3), ("b", 3), ("c", 4)):
        (tmp_path / place).mkdir()
        results.append(train(make_task(), seed, 4, tmp_path / place))
    a, b, c = (np.concatenate([w.ravel() for w in r.weights.values()]) for r in results)
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_training_lowers_the_validation_error(tmp_path: Path):
    errors: list[float] = []
    outcome = train(make_task(), 0, 30, tmp_path, lambda _n, _d, _w, error, _b: errors.append(error))
    assert outcome.validation_mape == min(errors) < 0.5 * errors[0]
    assert outcome.best_epoch == 1 + errors.index(min(errors))
    assert outcome.ratio_low <= 1.2
    assert outcome.ratio_high >= 0.8


def test_an_interrupted_training_ends_with_the_weights_of_one_that_was_not(tmp_path: Path):
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    whole = train(make_task(), 0, 6, tmp_path / "whole")

    def stop(_name: str, done: int, *_: float) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(make_task(), 0, 6, tmp_path / "parts", stop)
    seen: list[int] = []
    parts = train(make_task(), 0, 6, tmp_path / "parts", lambda _n, done, *_: seen.append(done))
    assert seen == [4, 5, 6]
    assert parts.validation_mape == whole.validation_mape
    assert all(np.array_equal(parts.weights[k], whole.weights[k]) for k in whole.weights)


def test_a_finished_training_is_not_run_again(tmp_path: Path):
    train(make_task(), 0, 2, tmp_path)
    seen: list[int] = []
    train(make_task(), 0, 2, tmp_path, lambda _n, done, *_: seen.append(done))
    assert not seen


@pytest.mark.parametrize(("seed", "learning_rate"), [(1, 1e-2), (0, 1e-3)])
def test_the_checkpoint_of_another_training_is_refused(tmp_path: Path, seed: int, learning_rate: float):
    train(make_task(), 0, 1, tmp_path)
    with pytest.raises(InputError, match="--output"):
        train(make_task(learning_rate=learning_rate), seed, 2, tmp_path)


@pytest.mark.parametrize("damage", ["cut off", "flipped", "empty"])
def test_a_damaged_checkpoint_is_named_and_set_aside_and_the_training_begins_anew(
    tmp_path: Path, damage: str
):
    whole = train(make_task(), 0, 2, tmp_path)
    place = next(tmp_path.glob("*.checkpoint.npz"))
    data = bytearray(place.read_bytes())
    data[len(data) // 2] ^= 1
    place.write_bytes({"cut off": data[:-40], "flipped": data, "empty": b""}[damage])
    with pytest.warns(
        StoreWarning, match=r"\.checkpoint\.npz': it is no archive .*\.damaged, and the training"
    ):
        again = train(make_task(), 0, 2, tmp_path)
    assert all(np.array_equal(again.weights[k], whole.weights[k]) for k in whole.weights)


def test_a_training_that_another_process_runs_is_refused(tmp_path: Path):
    def second(*_: object) -> None:
        train(make_task(), 0, 2, tmp_path)

    with pytest.raises(InputError, match=r"is being written .* another folder with --output"):
        train(make_task(), 0, 2, tmp_path, second)


def test_a_net_that_dies_early_starts_again_and_the_death_is_told(tmp_path: Path):
    nets = iter([dead_net, small_net])
    outcome = train(make_task(lambda: next(nets)()), 0, 3, tmp_path)
    assert outcome.deaths == (1,)
    assert outcome.died_at is None
    assert outcome.num_epochs == 3


def test_a_net_that_always_dies_is_an_error_that_names_the_seed(tmp_path: Path):
    with pytest.raises(InputError, match="--seed"):
        train(make_task(dead_net), 0, 3, tmp_path)


def test_weights_that_become_nan_are_a_death(tmp_path: Path):
    with pytest.raises(InputError, match="died"):
        train(make_task(learning_rate=float("inf")), 0, 3, tmp_path)


def test_a_net_whose_outputs_no_longer_matter_is_a_death(tmp_path: Path):
    """As NeuSight's: both sigmoids at their ends, utilization 1 for every row, and no gradient."""

    def saturated_net() -> nn.Module:
        net = small_net()
        with torch.no_grad():
            net[4].weight.mul_(100.0)
            net[4].bias.fill_(3e3)
        return net

    nets = iter([saturated_net, small_net])
    task = make_task(lambda: next(nets)())
    squashed = replace(task, answer=lambda outputs, context: outputs[:, 0].sigmoid() * context[:, 0])
    assert train(squashed, 0, 3, tmp_path).deaths == (1,)


def test_a_net_that_predicts_nothing_is_kept_and_told_by_its_error(tmp_path: Path):
    def negative_net() -> nn.Module:
        net = build_mlp(2, 1, 8, 2)
        with torch.no_grad():
            net[2].bias.fill_(-100.0)
        return net

    outcome = train(make_task(negative_net, 1e-4), 0, 1, tmp_path)
    assert (outcome.validation_mape, outcome.ratio_low, outcome.ratio_high) == (1.0, 1.0, 1.0)


def test_the_split_is_whole_disjoint_and_by_the_seed():
    first, second = split_rows(100, 0.8, 0)
    assert len(first) == 80
    assert sorted([*first, *second]) == list(range(100))
    assert not np.array_equal(first, split_rows(100, 0.8, 1)[0])


@pytest.mark.parametrize("num_rows", [0, 1])
def test_too_few_rows_to_split_are_an_error(num_rows: int):
    with pytest.raises(ValueError, match="split"):
        split_rows(num_rows, 0.8, 0)


def test_the_fingerprint_tells_data_recipe_and_seed_apart():
    task = make_task()
    other = make_task()
    other.seconds[0] *= 2
    keys = {fingerprint(task, 0), fingerprint(task, 1), fingerprint(other, 0)}
    keys.add(fingerprint(make_task(learning_rate=1.0), 0))
    assert len(keys) == 4
    assert fingerprint(make_task(), 0) in keys


def test_a_summary_holds_everything_but_the_weights(tmp_path: Path):
    told = summary(train(make_task(), 0, 1, tmp_path), make_task())
    assert "weights" not in told
    assert told["batch_size"] == 8
    assert told["num_train"] == 48
