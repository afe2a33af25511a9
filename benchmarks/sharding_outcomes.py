"""From timed steps to makespans, and what they say of the predictions; for ``sharding_measured.py``."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfcast.cost.embedding.model import PHASES
from perfcast.measure.embedding.probes import probe_slopes

OURS = "perfcast"
#: Of the repeats, whose quartiles give the spread.
PARTS = 8
CLOSE = 0.03

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Steps:
    """What one rank took in s steps under one placement.

    Attributes:
        tables: Of each phase, shape [s, tables].
        probes: Of each phase, shape [s, 3].
        communication: Before the lookups and after them, each several times, shape [s, 2, k].
        together: Whole steps with both ranks at once; NaN where none was run; shape [s].
    """

    tables: Mapping[str, Array]
    probes: Mapping[str, Array]
    communication: Array
    together: Array


@dataclass(frozen=True)
class Outcome:
    """One placement of one task.

    Attributes:
        placements: Names of the rules that chose it.
        spread: Distance of the quartiles of the makespans of the parts of the repeats, relative.
        predicted_parts, measured_parts: All-to-all of indices, the other collectives, forward, backward.
        half_seconds: Makespans of every second turn, and of the others.
        together_seconds: By the clock, both ranks looking up at once.
    """

    task: str
    placements: tuple[str, ...]
    predicted_seconds: float
    measured_seconds: float
    spread: float
    predicted_parts: tuple[float, ...]
    measured_parts: tuple[float, ...]
    half_seconds: tuple[float, ...]
    together_seconds: float


def read_steps(found: Mapping[str, Any]) -> Steps:
    """From a rank's answer, or what a store kept of it."""
    probes = np.array(found["probes"])
    return Steps(
        {phase: np.array(found[phase]) for phase in PHASES},
        {phase: probes[:, at] for at, phase in enumerate(PHASES)},
        np.array(found["communication"]),
        np.array(found["together"]),
    )


def table_seconds(every: Sequence[Steps]) -> list[dict[str, Array]]:
    """Of every rank under every placement, what each table takes: the median of steady steps."""
    return [
        {phase: np.exp(np.median(logs, axis=0)) for phase, logs in one.items()} for one in steady_logs(every)
    ]


def steady_logs(every: Sequence[Steps]) -> list[dict[str, Array]]:
    """Logarithms of the tables' seconds, stated for probes that take their medians; [steps, tables] each."""
    found: list[dict[str, Array]] = [{} for _ in every]
    for phase in PHASES:
        some = [one for one in every if one.tables[phase].shape[1]]
        slopes = probe_slopes(
            [one.tables[phase].sum(axis=1) for one in some], [one.probes[phase] for one in some]
        )
        reference = np.median(np.concatenate([np.log(one.probes[phase]) for one in every]), axis=0)
        for own, one in zip(found, every, strict=True):
            shift = (np.log(one.probes[phase]) - reference) @ slopes
            own[phase] = np.log(one.tables[phase]) - shift[:, None]
    return found


def without_turns(logs: Sequence[dict[str, Array]]) -> list[dict[str, Array]]:
    """Less what all placements share in a turn: the median deviation of their sums from their own medians."""
    found: list[dict[str, Array]] = [{} for _ in logs]
    for phase in PHASES:
        sums = [np.log(np.exp(one[phase]).sum(axis=1)) for one in logs if one[phase].shape[1]]
        turns = np.median([own - np.median(own) for own in sums], axis=0)
        for own, one in zip(found, logs, strict=True):
            own[phase] = one[phase] - turns[:, None]
    return found


def read_task(name: str, answers: Sequence[Any], plans: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Makespan of each plan.

    Args:
        answers: Of each rank, by plan, with the ranks as they are and exchanged.
    """
    count = len(answers)
    # By plan, then by holder of tables, then by side: a holder is one process and then the other.
    steps = [
        read_steps(answers[(holder + side) % count][str(at)][side])
        for at in range(len(plans))
        for holder in range(count)
        for side in range(count)
    ]
    logs = without_turns(steady_logs(steps))
    mine = [slice(at * count**2, (at + 1) * count**2) for at in range(len(plans))]
    return [read_plan(name, plan, steps[own], logs[own]) for plan, own in zip(plans, mine, strict=True)]


def read_plan(
    task: str, plan: Mapping[str, Any], steps: Sequence[Steps], logs: Sequence[dict[str, Array]]
) -> Outcome:
    """From steps and steady logarithms of each holder of tables, on every process in turn."""
    parts = measured_parts(steps, logs, slice(None))
    turns = np.array_split(np.arange(len(steps[0].communication)), PARTS)
    spans = [sum(measured_parts(steps, logs, turn)) for turn in turns if len(turn)]
    halves = tuple(sum(measured_parts(steps, logs, slice(first, None, 2))) for first in range(2))
    low, middle, high = np.quantile(spans, (0.25, 0.5, 0.75))
    together = float(np.nanmedian([one.together for one in steps]))
    return Outcome(
        task, tuple(plan["names"]), plan["predicted"], sum(parts), float((high - low) / middle),
        tuple(plan["parts"]), parts, halves, together,
    )  # fmt: skip


def measured_parts(steps: Sequence[Steps], logs: Sequence[dict[str, Array]], turns: Any) -> tuple[float, ...]:
    """All-to-all of indices, other collectives, forward, backward: each of the slower rank.

    Args:
        steps, logs: Of each holder of tables, on every process in turn.
    """
    count = round(len(steps) ** 0.5)
    parts = [
        float(np.median([np.max(pair, axis=0) for pair in side_by_side(steps, part, turns)]))
        for part in range(2)
    ]
    for phase in PHASES:
        ranks = []
        for holder in range(count):
            both = np.concatenate([one[phase][turns] for one in logs[holder * count : (holder + 1) * count]])
            ranks.append(float(np.exp(np.median(both, axis=0)).sum()))
        parts.append(max(ranks))
    return tuple(parts)


def side_by_side(steps: Sequence[Steps], part: int, turns: Any) -> list[list[Array]]:
    """A collective's seconds on the ranks that took part together, of each side."""
    count = round(len(steps) ** 0.5)
    return [
        [steps[holder * count + side].communication[turns, part] for holder in range(count)]
        for side in range(count)
    ]


def print_task(outcomes: Sequence[Outcome]) -> None:
    """Placements in the order of the prediction."""
    print(f"\n{outcomes[0].task}")
    best = min(outcome.measured_seconds for outcome in outcomes)
    for one in sorted(outcomes, key=lambda one: one.predicted_seconds):
        parts = ", ".join(
            f"{1e3 * p:.1f}/{1e3 * m:.1f}"
            for p, m in zip(one.predicted_parts, one.measured_parts, strict=True)
        )
        print(
            f"  {' = '.join(one.placements):34} predicted {one.predicted_seconds * 1e3:7.2f} ms  measured "
            f"{one.measured_seconds * 1e3:7.2f} ms  +{100 * (one.measured_seconds / best - 1):5.1f} %  "
            f"spread {100 * one.spread:4.1f} %  at once {one.together_seconds * 1e3:6.1f} ms  ({parts})"
        )
    sys.stdout.flush()


def print_summary(groups: Sequence[Sequence[Outcome]], spread: float) -> None:
    """How often the predicted best is the measured best.

    Args:
        groups: Placements of each task.
        spread: Of the lookups' cost, on calibration tasks that it was not fitted to.
    """
    total = len(groups)
    chosen = [min(group, key=lambda one: one.predicted_seconds) for group in groups]
    best = [min(group, key=lambda one: one.measured_seconds) for group in groups]
    at_once = [min(group, key=lambda one: one.together_seconds) for group in groups]
    excess = [a.measured_seconds / b.measured_seconds - 1 for a, b in zip(chosen, best, strict=True)]
    counts = {
        "predicted best is the measured best": [a is b for a, b in zip(chosen, best, strict=True)],
        "within 3 % of it": [one <= CLOSE for one in excess],
        "within 3 % (or the quartile spread) of it": [
            one <= max(CLOSE, a.spread) for one, a in zip(excess, chosen, strict=True)
        ],
        "of the published rules alone, predicted best is measured best": [rules_agree(g) for g in groups],
        "both halves of the repeats have the same best": [halves_agree(g) for g in groups],
        "predicted best is the fastest with both ranks at once": [
            a is b for a, b in zip(chosen, at_once, strict=True)
        ],
    }
    print(f"\nlookups of calibration tasks left out err by {100 * spread:.1f} % (one standard deviation)")
    for what, hits in counts.items():
        print(f"{what}: {sum(hits)} of {total} ({100 * sum(hits) / total:.0f} %)")
    every = [one for group in groups for one in group]
    errors = [abs(one.predicted_seconds / one.measured_seconds - 1) for one in every]
    print(f"median quartile spread of the repeats: {100 * statistics.median(o.spread for o in every):.1f} %")
    print(f"error of a step: mean {100 * statistics.mean(errors):.1f} %")
    gain = statistics.median(map(gain_over_rules, groups))
    print(f"the fastest published rule takes longer than the choice by {100 * gain:.1f} % (median)")


def rules_agree(group: Sequence[Outcome]) -> bool:
    """Whether prediction and measurement name the same published rule."""
    rules = [one for one in group if one.placements != (OURS,)]
    return min(rules, key=lambda one: one.predicted_seconds) is min(
        rules, key=lambda one: one.measured_seconds
    )


def halves_agree(group: Sequence[Outcome]) -> bool:
    """Whether a measurement of half as many turns, made twice, names the same best placement."""
    first, second = (min(group, key=lambda one, at=at: one.half_seconds[at]) for at in range(2))
    return first is second


def gain_over_rules(group: Sequence[Outcome]) -> float:
    """How much longer the fastest published rule takes than the search's choice, relative."""
    mine = next(one.measured_seconds for one in group if OURS in one.placements)
    return min(one.measured_seconds for one in group if one.placements != (OURS,)) / mine - 1
