"""Measured lookups: which are chosen, how they are kept, and that they really run."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from perfcast.core.embedding.lookup import EmbeddingTable
from perfcast.errors import CalibrationError, InputError, UnknownNameError
from perfcast.files.lock import StoreWarning
from perfcast.measure.embedding.cases import (
    DISTRIBUTIONS,
    GROUPS,
    HELD_OUT_DISTRIBUTIONS,
    EmbeddingCase,
    design_cases,
    draw_cases,
    draw_indices,
)
from perfcast.measure.embedding.probes import PROBES, Probes, at_reference, probe_slopes
from perfcast.measure.embedding.runner import EmbeddingRun, EmbeddingRunner, bags_in_arena
from perfcast.measure.embedding.samples import join_runs, measure_repeatability, state_runs
from perfcast.measure.embedding.store import load_repeatability, load_samples, measure_design
from perfcast.units import MIB

CASE = EmbeddingCase(
    (EmbeddingTable("a", 200, 8, 4.0), EmbeddingTable("b", 50, 16, 2.0)), ("uniform", "zipf-1.05"), 16, 7
)


def test_held_out_cases_share_neither_table_nor_distribution():
    design = design_cases(num_fit=40, num_held_out=20)
    known, new = design[GROUPS[0]], design[GROUPS[-1]]
    assert not {t.name for case in known for t in case.tables} & {t.name for case in new for t in case.tables}
    assert not {d for case in known for d in case.distributions} & set(HELD_OUT_DISTRIBUTIONS)
    assert {d for case in new for d in case.distributions} <= set(HELD_OUT_DISTRIBUTIONS)
    assert [len(cases) for cases in design.values()] == [40, 20, 20, 20]


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_distribution_stays_in_its_table(distribution: str):
    indices = draw_indices(distribution, 700, 2000, np.random.default_rng(0))
    assert len(indices) == 2000
    assert indices.min() >= 0
    assert indices.max() < 700


def test_unknown_words_are_refused():
    with pytest.raises(UnknownNameError, match="zipf-S"):
        draw_indices("normal", 10, 10, np.random.default_rng(0))
    with pytest.raises(UnknownNameError, match="optimizer"):
        EmbeddingRunner("lion")
    with pytest.raises(InputError, match="too large"):
        draw_cases([EmbeddingTable("huge", 10**9, 256, 1.0)], ["uniform"], 1, 0)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_a_case_really_runs_and_its_reuse_is_counted(optimizer: str):
    (run,) = EmbeddingRunner(optimizer, visits=2, arena_bytes=MIB).run([CASE])
    assert run.forward.shape == run.backward.shape == (4,)
    assert run.probes.shape == (4, len(PROBES))
    assert min(run.forward.min(), run.backward.min(), run.probes.min()) > 0
    assert [lookup.num_lookups for lookup in run.lookups] == [64, 32]
    assert [round(lookup.reuse.num_lookups) for lookup in run.lookups if lookup.reuse] == [64, 32]


def test_a_visit_counts_all_steps_but_its_first():
    ticks = iter(range(1000))
    (run,) = EmbeddingRunner(visits=3, clock=lambda: float(next(ticks)), arena_bytes=MIB).run([CASE])
    assert run.forward.tolist() == run.backward.tolist() == [1.0] * 6
    assert run.probes.tolist() == [[1.0] * 3] * 6


def test_tables_of_a_case_share_no_memory():
    bags = bags_in_arena(CASE.tables, torch.zeros(8192), random.Random(0))
    places = [(bag.weight.data_ptr(), bag.weight.data_ptr() + 4 * bag.weight.numel()) for bag in bags]
    assert places[0][1] <= places[1][0]


def test_probes_are_timed_by_the_clock_they_are_given():
    ticks = iter(range(10))
    assert Probes(lambda: float(next(ticks))).seconds().tolist() == [1.0, 1.0, 1.0]


def _slowed(seconds: float, seed: int, steps: int = 40) -> EmbeddingRun:
    """A case that takes ``seconds`` where probes take 1 s, with slopes 0.5, 0 and 0.4 on what slows it."""
    slow = np.exp(np.random.default_rng(seed).normal(0.0, 0.4, (steps, 3)))
    forward = seconds * slow[:, 0] ** 0.5 * slow[:, 2] ** 0.4
    return EmbeddingRun((), ("a",), ("uniform",), "sgd", forward, 2 * forward, slow)


def test_what_slows_a_step_and_its_probes_alike_is_taken_out():
    runs = [_slowed(seconds, seed) for seed, seconds in enumerate((1e-3, 5e-3, 2e-2))]
    slopes = probe_slopes([run.forward for run in runs], [run.probes for run in runs])
    assert slopes == pytest.approx([0.5, 0.0, 0.4], abs=1e-9)
    assert at_reference(runs[0].forward, runs[0].probes, slopes, np.ones(3)) == pytest.approx(1e-3)
    stated = state_runs(runs)
    assert stated[1] / stated[0] == pytest.approx([5.0, 5.0])
    assert stated[:, 1] == pytest.approx(2 * stated[:, 0])


def test_passes_are_joined_by_their_geometric_mean_and_compared():
    pairs = {"x": [_slowed(1.0, 0), _slowed(4.0, 1)], "y": [_slowed(2.0, 2), _slowed(8.0, 3)]}
    joined = join_runs(pairs)
    assert joined["y"].forward_seconds / joined["x"].forward_seconds == pytest.approx(2.0)
    forward, backward = measure_repeatability([*pairs.values(), [_slowed(1.0, 4)]])
    assert (forward.phase, backward.phase, forward.num_cases) == ("forward", "backward", 2)
    assert forward.deviation == pytest.approx(0.0, abs=1e-9)
    assert forward.shift == pytest.approx(np.log(4.0))


@pytest.fixture
def small_arena(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfcast.measure.embedding.runner._ARENA_BYTES", MIB)


@pytest.mark.usefixtures("small_arena")
def test_an_interrupted_design_goes_on_where_it_stopped(tmp_path: Path):
    path = tmp_path / "embedding.jsonl"
    design = {"fit": (CASE,), GROUPS[-1]: (CASE,)}
    measure_design(path, 1, design, ("sgd",), visits=2)
    assert len(path.read_text().splitlines()) == 3  # with the header
    assert load_repeatability(path) == ()
    done: list[tuple[int, int]] = []
    measure_design(path, 2, design, ("sgd",), lambda *numbers: done.append(numbers), visits=2)
    assert done == [(2, 2)]
    samples = load_samples(path)
    assert [len(samples[group]) for group in GROUPS] == [1, 0, 0, 1]
    assert [one.num_cases for one in load_repeatability(path)] == [2, 2]


@pytest.mark.parametrize("wrong", [{"forward": []}, {"backward": [0.0, 0.0]}, {"probes": [1.0]}])
@pytest.mark.usefixtures("small_arena")
def test_a_record_that_cannot_be_is_named_and_measured_again(tmp_path: Path, wrong: dict[str, list[float]]):
    path, design = tmp_path / "embedding.jsonl", {"fit": (replace(CASE, seed=1),)}
    measure_design(path, 1, design, ("sgd",), visits=1)
    record = json.loads(path.read_text().splitlines()[1])
    del record["crc"]  # as older versions wrote it
    path.write_text(json.dumps(record | wrong) + "\n")
    with (
        pytest.warns(StoreWarning, match="line 1 is damaged"),
        pytest.raises(CalibrationError, match="holds no measured embedding lookups"),
    ):
        load_samples(path)
    with pytest.warns(StoreWarning, match="line 1 is damaged"):
        measure_design(path, 1, design, ("sgd",), visits=1)
    assert len(load_samples(path)["fit"]) == 1


def test_nothing_measured_is_an_error_that_says_so(tmp_path: Path):
    with pytest.raises(CalibrationError, match="measure some: perfcast train embedding"):
        load_samples(tmp_path / "none.jsonl")
