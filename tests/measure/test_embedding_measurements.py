"""Measured lookups: which are chosen, how they are kept, and that they really run."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from perfcast.core.embedding import EmbeddingTable
from perfcast.errors import CalibrationError, InputError, UnknownNameError
from perfcast.measure.embedding import measure_cases
from perfcast.measure.embedding_cases import (
    DISTRIBUTIONS,
    GROUPS,
    HELD_OUT_DISTRIBUTIONS,
    EmbeddingCase,
    design_cases,
    draw_cases,
    draw_indices,
)
from perfcast.measure.embedding_store import load_samples, measure_design

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
        list(measure_cases([CASE], "lion"))
    with pytest.raises(InputError, match="too large"):
        draw_cases([EmbeddingTable("huge", 10**9, 256, 1.0)], ["uniform"], 1, 0)


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad"])
def test_a_case_really_runs_and_its_reuse_is_counted(optimizer: str):
    (sample,) = measure_cases([CASE], optimizer, repeats=2)
    assert sample.forward_seconds > 0
    assert sample.backward_seconds > 0
    assert [lookup.num_lookups for lookup in sample.lookups] == [64, 32]
    assert [round(lookup.reuse.num_lookups) for lookup in sample.lookups if lookup.reuse] == [64, 32]


def test_times_are_stated_for_one_speed_of_the_probe():
    ticks = itertools.count()
    (sample,) = measure_cases([CASE], repeats=2, clock=lambda: float(next(ticks)))
    assert (sample.forward_seconds, sample.backward_seconds, sample.probe_seconds) == pytest.approx((1, 1, 1))
    assert sample.at_probe(0.5).forward_seconds == pytest.approx(0.5)


def test_an_interrupted_design_goes_on_where_it_stopped(tmp_path: Path):
    path = tmp_path / "embedding.jsonl"
    design = {"fit": (CASE,), GROUPS[-1]: (CASE,)}
    measure_design(path, 1, design, ("sgd",))
    assert len(path.read_text().splitlines()) == 2
    done: list[tuple[int, int]] = []
    measure_design(path, 2, design, ("sgd",), lambda *numbers: done.append(numbers))
    assert done == [(1, 2), (2, 2)]
    samples = load_samples(path)
    assert [len(samples[group]) for group in GROUPS] == [1, 0, 0, 1]


def test_nothing_measured_is_an_error_that_says_so(tmp_path: Path):
    with pytest.raises(CalibrationError, match="measure them first"):
        load_samples(tmp_path / "none.jsonl")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"machine": "m", "group": "fit"}\n')
    with pytest.raises(CalibrationError, match="not a measured embedding lookup"):
        load_samples(bad)
