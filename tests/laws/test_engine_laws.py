"""What must hold for every program that the engine plays."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.simulate.critical_path import critical_path
from perfcast.simulate.engine import play
from perfcast.simulate.program import Lane, Program, ProgramBuilder

NUM_LANES = 4


@st.composite
def programs(draw: st.DrawFn, *, contends: bool = False, pools: bool = False) -> Program:
    builder = ProgramBuilder()
    for number in range(NUM_LANES):
        is_pool = pools and number == 0
        builder.add_lane(Lane(f"lane {number}", number // 2 if contends else -1, number % 2 == 1, is_pool))
    factor = 1.25 if contends else 1.0
    for _ in range(draw(st.integers(1, 25))):
        lane = draw(st.integers(0, NUM_LANES - 1))
        seconds = draw(st.integers(0, 8)) / 4
        if lane > 1 and draw(st.booleans()):
            meeting = builder.add_collective(2)
            for member in (2, 3):
                builder.add(member, seconds, collective=meeting, slowdown=2 * factor if contends else 1.0)
            continue
        earlier = st.integers(0, builder.num_tasks - 1)
        after = draw(st.lists(earlier, max_size=3)) if builder.num_tasks else []
        builder.add(lane, seconds, after, slowdown=factor, priority=draw(st.integers(0, 2)))
    return builder.build()


def longest_ways(program: Program) -> list[float]:
    """Ends without contention, by the order of indices: all dependencies of these programs point back."""
    ends: list[float] = []
    free = [0.0] * NUM_LANES
    awaited: dict[int, list[int]] = {}
    for task, other in zip(program.waiting, program.awaited, strict=True):
        awaited.setdefault(task, []).append(other)

    def ready(task: int) -> float:
        return max([free[program.streams[task]], *(ends[other] for other in awaited.get(task, ()))])

    for task in range(program.num_tasks):
        which = program.collectives[task]
        members = [t for t, e in enumerate(program.collectives) if e == which] if which >= 0 else [task]
        if task == members[0]:
            end = max(ready(member) for member in members) + program.seconds[task]
        ends.append(end)
        free[program.streams[task]] = end
    return ends


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs())
def test_without_contention_ends_are_the_longest_ways(program: Program):
    assert play(program).ends.tolist() == longest_ways(program)


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs(contends=True, pools=True))
def test_a_program_ends_no_earlier_than_its_busiest_stream_and_its_critical_path(program: Program):
    played = play(program)
    busy = np.bincount(program.streams, program.seconds, minlength=NUM_LANES)
    assert played.makespan_seconds >= busy.max() - 1e-9
    path = critical_path(program, played)
    assert sum(program.seconds[task] for task in path) <= played.makespan_seconds + 1e-9


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs(contends=True))
def test_the_critical_path_fills_the_makespan(program: Program):
    played = play(program)
    path = critical_path(program, played)
    length = sum(float(played.ends[task] - played.starts[task]) for task in path)
    assert length == pytest.approx(played.makespan_seconds)


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs(contends=True, pools=True))
def test_tasks_of_a_stream_never_overlap(program: Program):
    played = play(program)
    for lane in range(NUM_LANES):
        on_lane = [task for task, stream in enumerate(program.streams) if stream == lane]
        on_lane.sort(key=lambda task: (played.starts[task], played.ends[task]))
        for before, after in pairwise(on_lane):
            assert played.starts[after] >= played.ends[before] - 1e-12


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs(contends=True, pools=True))
def test_a_run_is_a_function_of_its_program(program: Program):
    first, second = play(program), play(program)
    assert first.starts.tobytes() == second.starts.tobytes()
    assert first.ends.tobytes() == second.ends.tobytes()


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs(), st.data())
def test_more_work_never_ends_earlier(program: Program, data: st.DataObject):
    task = data.draw(st.integers(0, program.num_tasks - 1))
    longer = list(program.seconds)
    longer[task] += 1.0
    assert (play(replace(program, seconds=longer)).ends >= play(program).ends).all()


@settings(max_examples=cases(40, share=0.2), deadline=None)
@given(programs(contends=True))
def test_contention_costs_time_but_no_more_than_its_factor(program: Program):
    alone = play(replace(program, slowdowns=[1.0] * program.num_tasks)).makespan_seconds
    together = play(program).makespan_seconds
    assert alone - 1e-9 <= together <= 2.5 * alone + 1e-9
