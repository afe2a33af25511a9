"""Makespans from timed steps, as ``benchmarks/sharding_measured.py`` reads them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

NUM_STEPS = 16
PROBES = [1e-4, 3e-4, 2e-4]


@pytest.fixture(scope="module")
def outcomes() -> ModuleType:
    path = Path(__file__).parent.parent / "benchmarks" / "sharding_outcomes.py"
    spec = importlib.util.spec_from_file_location("sharding_outcomes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def steps(
    forward: list[float], slow: Any = 1.0, communication: tuple[float, float] = (1.0, 2.0)
) -> dict[str, Any]:
    """What a rank answers for tables of such seconds; backward takes three times as long."""
    slow = np.broadcast_to(slow, NUM_STEPS)
    tables = slow[:, None] * np.array(forward)
    return {
        "forward": tables,
        "backward": 3 * tables,
        "communication": np.tile(communication, (NUM_STEPS, 1)),
        "probes": np.tile(PROBES, (NUM_STEPS, 2, 1)),
        "together": np.full(NUM_STEPS, 9.0),
    }


def plan(name: str, predicted: float) -> dict[str, Any]:
    return {"names": [name], "predicted": predicted, "parts": (0.0, 0.0, 0.0, 0.0)}


def answers(slow: Any = 1.0) -> list[dict[str, list[dict[str, Any]]]]:
    """Plan 0 has tables of 2 + 3 and of 4 seconds on the two ranks, plan 1 of 6 and of 3; and exchanged."""
    first, second, third, fourth = [2.0, 3.0], [4.0], [6.0], [3.0]
    return [
        {"0": [steps(first, slow), steps(second, slow)], "1": [steps(third, slow), steps(fourth, slow)]},
        {"0": [steps(second, slow), steps(first, slow)], "1": [steps(fourth, slow), steps(third, slow)]},
    ]


PLANS = [plan("perfcast", 22.0), plan("naive", 28.0)]


def test_a_makespan_is_the_collectives_and_the_slower_ranks_lookups(outcomes: ModuleType) -> None:
    found = outcomes.read_task("any 0", answers(), PLANS)
    assert [one.measured_seconds for one in found] == pytest.approx([3 + 5 + 15, 3 + 6 + 18])
    assert found[0].measured_parts == pytest.approx((1, 2, 5, 15))
    assert found[0].spread == pytest.approx(0.0, abs=1e-12)


def test_what_all_placements_share_in_a_turn_is_taken_out(outcomes: ModuleType) -> None:
    slow = np.ones(NUM_STEPS)
    slow[3:9] = 1.7
    found = outcomes.read_task("any 0", answers(slow), PLANS)
    assert [one.measured_seconds for one in found] == pytest.approx([23, 27])
    assert found[1].spread == pytest.approx(0.0, abs=1e-12)


def test_a_step_is_stated_for_the_reference_of_the_probes(outcomes: ModuleType) -> None:
    answer = steps([2.0, 1.0], np.exp(np.linspace(-0.5, 0.5, NUM_STEPS)))
    shift = np.linspace(-0.5, 0.5, NUM_STEPS)[:, None, None]
    answer["probes"] = answer["probes"] * np.exp(shift * np.array([1.0, 0.0, 0.0]))
    (found,) = outcomes.table_seconds([outcomes.read_steps(answer)])
    assert found["forward"] == pytest.approx([2, 1])
    assert found["backward"] == pytest.approx([6, 3])


def test_a_rank_without_tables_takes_no_time(outcomes: ModuleType) -> None:
    empty = steps([])
    every = [{"0": [steps([5.0]), empty]}, {"0": [empty, steps([5.0])]}]
    (found,) = outcomes.read_task("any 0", every, PLANS[:1])
    assert found.measured_parts == pytest.approx((1, 2, 5, 15))


def test_the_summary_counts_hits_and_near_misses(
    outcomes: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    hit = outcomes.read_task("any 0", answers(), PLANS)
    miss = outcomes.read_task("any 1", answers(), [plan("perfcast", 22.0), plan("naive", 21.0)])
    outcomes.print_summary([hit, miss], 0.05)
    said = capsys.readouterr().out
    assert "predicted best is the measured best: 1 of 2 (50 %)" in said
    assert "within 3 % of it: 1 of 2 (50 %)" in said
    assert "both halves of the repeats have the same best: 2 of 2 (100 %)" in said
