"""Steps of programs on a processor forecast from recordings of another batch, against what those took.

``python benchmarks/other_batches.py FOLDER``: every NAME-BATCH in it is a recording by
``perfcast trace record --out NAME-BATCH``, of each NAME at two batches. Both are forecast from each other;
what a step took is the mean of those timed without a timeline, by the clock. Names are split in two by their
order: what is fitted is fitted to the first, third, fifth … (``--fit`` prints by kind of operator the
break-even bytes with the least error in them, as ``traces/forecast/host/same_processor.py`` holds them), and
errors are printed of both halves.
"""

from __future__ import annotations

import argparse
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from perfcast.core.operation import Operation
from perfcast.errors import PerfcastError
from perfcast.traces.events import Category, Trace
from perfcast.traces.forecast.batch import change_of_batch
from perfcast.traces.forecast.from_traces import TraceForecast, forecast_from_traces
from perfcast.traces.forecast.host.operators import does_work
from perfcast.traces.forecast.operations import RecordedOperations
from perfcast.traces.forecast.recording_cost import (
    cost_of_recording,
    own_without_cost,
    plain_step_seconds,
    plain_steps,
)
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs
from perfcast.traces.link.kernels import nest
from perfcast.traces.scaling.recorded.read import calls_beside
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.units import KILO

#: Break-even bytes (and flops of products) that are tried.
_TRIED = [2.0**power * KILO for power in range(1, 8)]


@dataclass(frozen=True)
class Recorded:
    """A program at one batch."""

    path: Path
    batch: int

    @property
    def step_seconds(self) -> float:
        return plain_step_seconds([self.path])[0]

    def read(self) -> Trace:
        return read_ranks_with_inputs([self.path])[0]


def pairs_in(folder: Path) -> dict[str, tuple[Recorded, Recorded]]:
    """Names with both of their recordings, the smaller batch first."""
    found: dict[str, list[Recorded]] = defaultdict(list)
    for path in sorted(folder.glob("*-*/rank0.kineto.json.gz")):
        name, _, batch = path.parent.name.rpartition("-")
        found[name].append(Recorded(path, int(batch)))
    return {
        name: (min(own, key=lambda one: one.batch), max(own, key=lambda one: one.batch))
        for name, own in sorted(found.items())
        if len(own) > 1
    }


def forecast(recorded: Recorded, wanted: int) -> TraceForecast:
    traces = [recorded.read()]
    calls = calls_beside([recorded.path], traces)
    request = TraceForecastRequest(
        batch=(recorded.batch, wanted),
        plain_seconds=plain_step_seconds([recorded.path]),
        plain_steps=plain_steps([recorded.path]),
        calls=calls,
    )
    return forecast_from_traces(traces, request)


def compare(name: str, recorded: Recorded, wanted: Recorded) -> tuple[float, bool] | None:
    """Error of a forecast, and whether the truth is inside; prints both."""
    what, truth = f"{name:14} {recorded.batch:4} -> {wanted.batch:4}", wanted.step_seconds
    try:
        found = forecast(recorded, wanted.batch)
    except PerfcastError as refusal:
        print(f"{what}  refused: {refusal}")
        return None
    error = found.step_seconds / truth - 1
    is_inside = found.step_seconds_low <= truth <= found.step_seconds_high
    print(
        f"{what}  {1e3 * found.step_seconds:8.2f} ms [{1e3 * found.step_seconds_low:.2f}, "
        f"{1e3 * found.step_seconds_high:.2f}], took {1e3 * truth:8.2f}  {error:+7.1%}"
        f"  {'' if is_inside else 'outside'}",
        flush=True,
    )
    return error, is_inside


def summarise(words: str, errors: Sequence[tuple[float, bool]]) -> None:
    if errors:
        sizes = [abs(error) for error, _ in errors]
        worst = max((error for error, _ in errors), key=abs)
        print(
            f"{words:30} {len(errors):3} median {statistics.median(sizes):6.1%} mean "
            f"{statistics.fmean(sizes):6.1%} worst {worst:+7.1%} inside {sum(i for _, i in errors)}"
        )


Observed = tuple[Operation, Operation, float, float]


def operators_of(recorded: Recorded, wanted: Recorded) -> list[Observed]:
    """Operators that both recordings hold: at both batches, with their own seconds (medians of steps)."""
    here, there = _times_by_place(recorded), _times_by_place(wanted)
    trace, rows, own, _ = here
    parents = nest(trace.events).parents
    calls = calls_beside([recorded.path], [trace]).get(0)
    change = change_of_batch(trace, parents, recorded.batch, wanted.batch, calls)
    before = RecordedOperations(trace, parents)
    after = RecordedOperations(trace, parents, change.inputs_of)
    works = does_work(np.array(rows), parents, [before.at(row) for row in rows])
    names = [[one[0].events.name(row) for row in one[1]] for one in (here, there)]
    found: list[Observed] = []
    for block in SequenceMatcher(None, *names, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            row, first, second = rows[block.a + step], own[block.a + step], there[2][block.b + step]
            old, new = before.at(row), after.at(row)
            if works[block.a + step] and old is not None and new is not None and min(first, second) > 0:
                found.append((old, new, first, second))
    return found


def _times_by_place(recorded: Recorded) -> tuple[Trace, list[int], list[float], int]:
    """The operators of the last step in order, with the median of their own seconds over all steps."""
    trace = recorded.read()
    cost = cost_of_recording(trace, build_ranks([trace])[0], recorded.step_seconds)
    own = own_without_cost(trace.events, nest(trace.events).parents, cost)
    starts, rows = trace.events.start_seconds, trace.events.rows_in(Category.OPERATOR)
    steps = [
        [int(row) for row in rows if step.start_seconds <= starts[row] < step.end_seconds]
        for step in trace.steps
    ]
    alike = [step for step in steps if len(step) == len(steps[-1])]
    medians = np.median([own[step] for step in alike], axis=0)
    return trace, steps[-1], medians.tolist(), len(alike)


def fit(pairs: Sequence[tuple[Recorded, Recorded]]) -> None:
    """Mean error (of logarithms) of operators by kind and break-even size, both batches from each other."""
    found: dict[str, list[Observed]] = defaultdict(list)
    for one, other in pairs:
        for old, new, first, second in operators_of(one, other):
            if (old.memory_traffic_bytes, old.flops) != (new.memory_traffic_bytes, new.flops):
                found[old.kind.value] += [(old, new, first, second), (new, old, second, first)]
    print(f"{'break-even':16}{'calls':>7} " + " ".join(f"{size / KILO:6.0f}k" for size in _TRIED))
    for kind, calls in sorted(found.items()):
        print(f"{kind:16}{len(calls):7} " + " ".join(f"{_mean_error(calls, size):7.3f}" for size in _TRIED))


def _mean_error(calls: Sequence[Observed], even: float) -> float:
    """By the root of operators' times: large ones count more, small ones too."""
    errors, weights = [], []
    for old, new, first, second in calls:
        growth = _in_calls(new, even) / _in_calls(old, even)
        errors.append(abs(np.log(first * growth / second)))
        weights.append((first * second) ** 0.25)
    return float(np.average(errors, weights=weights))


def _in_calls(operation: Operation, even: float) -> float:
    """Of products the flops, with the bytes fixed at 64 kB."""
    if operation.uses_matrix_units:
        return 1 + operation.memory_traffic_bytes / (64 * KILO) + operation.executed_flops / even
    return 1 + operation.memory_traffic_bytes / even


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true", help="print break-even sizes of the first half")
    asked = parser.parse_args()
    pairs = pairs_in(asked.folder)
    if asked.fit:
        fit(list(pairs.values())[::2])
        return
    errors: dict[tuple[int, str], list[tuple[float, bool]]] = defaultdict(list)
    for place, (name, (small, large)) in enumerate(pairs.items()):
        for way, (recorded, wanted) in (("larger", (small, large)), ("smaller", (large, small))):
            found = compare(name, recorded, wanted)
            if found is not None:
                errors[place % 2, way].append(found)
    for way in ("larger", "smaller"):
        for half, words in enumerate(("fitted", "left out")):
            summarise(f"{way} batch, programs {words}", errors[half, way])
        summarise(f"{way} batch, all programs", errors[0, way] + errors[1, way])


if __name__ == "__main__":
    main()
