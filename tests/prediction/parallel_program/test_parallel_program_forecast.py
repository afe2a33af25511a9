"""Forecasts of parallel programs: ranks simulated together, by hand and from captures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from perfcast.core.collective import collective_operation, format_ranks
from perfcast.core.dtype import DType
from perfcast.core.forecast.plan import PlanForecast, StepTime
from perfcast.core.graph import Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.work import Call, Stream
from perfcast.errors import CaptureError, PlanError
from perfcast.prediction.parallel_program.predict import predict_parallel_program
from perfcast.prediction.parallel_program.simulation import simulate_ranks_of
from perfcast.prediction.parallel_program.time import step_time_of
from perfcast.workload.parallel_program.calls import CallCollective, RankCalls
from perfcast.workload.parallel_program.capture import ParallelProgram
from perfcast.workload.parallel_program.classes import axes_of

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


# ---- made-up ranks -----------------------------------------------------------------------------------


def kernel(seconds: int) -> Operation:
    return Operation(OperationKind.MATMUL, f"mm{seconds}", (), (), DType.BF16, seconds, seconds, 0)


class Rank:
    """A rank under construction; operations are named by their seconds."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.calls: list[Call] = []
        self.lanes: list[str] = []
        self.phases: list[Phase] = []
        self.collectives: list[CallCollective | None] = []

    def _add(
        self, call: Call, lane: str, collective: CallCollective | None, phase: Phase = Phase.FORWARD
    ) -> int:
        self.calls.append(call)
        self.lanes.append(lane)
        self.phases.append(phase)
        self.collectives.append(collective)
        return len(self.calls) - 1

    def compute(
        self, seconds: int, *after: int, recomputed: bool = False, phase: Phase = Phase.FORWARD
    ) -> int:
        call = Call(kernel(seconds), Stream.COMPUTE, after, "layers.3.mlp", is_recomputed=recomputed)
        return self._add(call, "compute", None, phase)

    def collective(
        self, ranks: Sequence[int], message: int, *after: int, stream: Stream = Stream.DATA, lane: str = "g"
    ) -> int:
        operation = collective_operation("all_reduce", message, ranks)
        return self._add(Call(operation, stream, after), lane, CallCollective(format_ranks(ranks)))

    def message(self, name: str, group: Sequence[int], peer: int, message: int, *after: int) -> int:
        pair = sorted((self.rank, peer))
        operation = collective_operation(name, message, pair)
        collective = CallCollective(format_ranks(group), peer)
        return self._add(Call(operation, Stream.PIPELINE, after), f"pair {pair} {name}", collective)

    def done(self) -> RankCalls:
        return RankCalls(
            self.rank, tuple(self.calls), tuple(self.lanes), tuple(self.phases), tuple(self.collectives)
        )


def program_of(
    ranks: Sequence[Rank], class_of_rank: Sequence[int], groups: Sequence[Sequence[int]] = ()
) -> ParallelProgram:
    axes = axes_of(groups, len(class_of_rank))
    return ParallelProgram(len(class_of_rank), (), tuple(class_of_rank), axes, (), len(ranks))


def seconds_of(ranks: Sequence[Rank]) -> dict[Operation, float]:
    """A kernel takes the seconds that it is named by, a collective its bytes."""
    prices: dict[Operation, float] = {}
    for rank in ranks:
        for call in rank.calls:
            size = call.operation.attribute("message_bytes")
            prices[call.operation] = float(call.operation.flops if size is None else size)
    return prices


def timed(
    ranks: Sequence[Rank],
    class_of_rank: Sequence[int],
    groups: Sequence[Sequence[int]] = (),
    launch_seconds: float = 0.0,
    with_spans: bool = False,
) -> StepTime:
    program = program_of(ranks, class_of_rank, groups)
    played = simulate_ranks_of(
        program, [rank.done() for rank in ranks], seconds_of(ranks), launch_seconds=launch_seconds
    )
    return step_time_of(played, with_spans=with_spans)


# ---- one class ---------------------------------------------------------------------------------------


def test_a_collective_beside_compute_shows_where_it_is_waited_for():
    rank = Rank(0)
    first = rank.compute(3)
    gather = rank.collective(range(4), 5, first)
    rank.compute(2)
    rank.compute(4, gather)
    time = timed([rank], [0] * 4, [range(4)])
    assert time.step_seconds == 3 + 5 + 4
    assert time.ranks[0].seconds_by_cause == {"compute": 9, "data": 3}
    assert time.ranks[0].num_equal == 4


def test_a_collective_that_ends_last_shows_at_the_end():
    rank = Rank(0)
    first = rank.compute(3)
    rank.collective(range(4), 5, first, stream=Stream.TENSOR)
    time = timed([rank], [0] * 4, [range(4)])
    assert time.ranks[0].seconds_by_cause == {"compute": 3, "tensor": 5}


def test_collectives_of_one_communicator_queue():
    rank = Rank(0)
    rank.collective(range(4), 5)
    second = rank.collective(range(4), 4, stream=Stream.EXPERT)
    rank.compute(1, second)
    time = timed([rank], [0] * 4, [range(4)])
    assert time.step_seconds == 10
    assert time.ranks[0].seconds_by_cause == {"data": 5, "expert": 4, "compute": 1}


def test_compute_is_told_apart_by_what_it_is_for():
    rank = Rank(0)
    rank.compute(1)
    rank.compute(2, recomputed=True)
    rank.compute(3, phase=Phase.OPTIMIZER)
    causes = timed([rank], [0]).ranks[0].seconds_by_cause
    assert causes == {"compute": 1, "recompute": 2, "optimizer": 3}


def test_a_late_host_shows_between_kernels():
    """Kernels of 1 s, issued every 3 s."""
    rank = Rank(0)
    for _ in range(4):
        rank.compute(1)
    time = timed([rank], [0], launch_seconds=3.0)
    assert time.step_seconds == 4 * 3 + 1
    assert time.ranks[0].seconds_by_cause == {"host": 9, "compute": 4}


def test_a_ring_of_equal_ranks_sends_and_receives_at_once():
    rank = Rank(0)
    sent = rank.message("send", range(4), 1, 5)
    received = rank.message("receive", range(4), 3, 5)
    rank.compute(2, sent, received)
    time = timed([rank], [0] * 4, [range(4)])
    assert time.step_seconds == 7
    assert len(time.ranks) == 1


# ---- ranks that differ -------------------------------------------------------------------------------


def test_a_collective_waits_for_the_slowest_of_the_ranks_that_differ():
    fast, slow = Rank(0), Rank(3)
    for rank, seconds in ((fast, 2), (slow, 7)):
        done = rank.compute(seconds)
        rank.compute(1, rank.collective(range(4), 3, done))
    time = timed([fast, slow], [0, 0, 0, 1], [range(4)])
    assert time.step_seconds == 7 + 3 + 1
    causes = {one.rank: one.seconds_by_cause for one in time.ranks}
    assert causes[0] == {"compute": 3, "straggler": 5, "data": 3}
    assert causes[3] == {"compute": 8, "data": 3}
    assert time.ranks[0].rank == 3  # the one with the most work of its own stands first


def pipeline(num_stages: int, micro_batches: int, seconds: int, message: int) -> list[Rank]:
    """Forwards alone: each stage receives, computes, sends."""
    group = range(num_stages)
    ranks = []
    for index in range(num_stages):
        rank = Rank(index)
        for _ in range(micro_batches):
            after = [rank.message("receive", group, index - 1, message)] if index else []
            computed = rank.compute(seconds, *after)
            if index < num_stages - 1:
                rank.message("send", group, index + 1, message, computed)
        ranks.append(rank)
    return ranks


def test_stages_follow_one_another():
    """The last of 4 stages starts after 3 computes and 3 messages, and then computes 5 micro-batches."""
    time = timed(pipeline(4, 5, 3, 1), range(4), [range(4)])
    assert time.step_seconds == 3 * (3 + 1) + 5 * 3
    first = next(one for one in time.ranks if one.rank == 0)
    assert first.seconds_by_cause == {"compute": 15, "pipeline": 1, "bubble": 11}


def test_stages_of_one_class_are_simulated_each_at_its_own_time():
    first, middle, *_, last = pipeline(6, 5, 3, 1)
    last.rank = 5
    time = timed([first, middle, last], [0, 1, 1, 1, 1, 2], [range(6)])
    assert time.step_seconds == 5 * (3 + 1) + 5 * 3
    assert [(one.rank, one.stage, one.num_equal) for one in sorted(time.ranks, key=lambda o: o.rank)] == [
        (rank, rank, 1) for rank in range(6)
    ]


def test_replicas_of_stages_are_counted_and_not_simulated():
    ranks = pipeline(3, 2, 3, 1)
    moved = []
    for index, rank in enumerate(ranks):
        copy = Rank(4 * index)
        copy.calls, copy.lanes, copy.phases = rank.calls, rank.lanes, rank.phases
        copy.collectives = [
            e and CallCollective(format_ranks((0, 4, 8)), 4 * e.peer) for e in rank.collectives
        ]
        moved.append(copy)
    time = timed(moved, [rank // 4 for rank in range(12)], [(0, 4, 8), range(4)])
    assert time.step_seconds == 2 * (3 + 1) + 2 * 3
    assert [one.num_equal for one in time.ranks] == [4, 4, 4]


def test_causes_add_up_to_the_step_on_all_ranks():
    time = timed(pipeline(4, 5, 3, 2), range(4), [range(4)], launch_seconds=0.5)
    for one in time.ranks:
        assert sum(one.seconds_by_cause.values()) == pytest.approx(time.step_seconds)


def test_the_critical_path_is_as_long_as_the_step():
    time = timed(pipeline(4, 5, 3, 2), range(4), [range(4)], with_spans=True)
    assert sum(seconds for _, seconds in time.critical_path) == pytest.approx(time.step_seconds)
    assert time.critical_path[0][0] == "layers.*.mlp: mm3"
    critical = [span for span in time.spans if span.on_critical_path]
    assert min(span.start_seconds for span in critical) == 0
    assert max(span.end_seconds for span in critical) == time.step_seconds
    assert {span.rank for span in time.spans} == {0, 1, 2, 3}


# ---- what cannot be ----------------------------------------------------------------------------------


def test_a_message_that_nobody_receives_is_an_error():
    sender, receiver = pipeline(2, 3, 1, 1)
    sender.message("send", range(2), 1, 1)
    with pytest.raises(PlanError, match="rank 0 sends rank 1 4 messages, which receives 3"):
        timed([sender, receiver], [0, 1], [range(2)])


def test_a_collective_that_one_rank_leaves_out_is_an_error():
    one, other = Rank(0), Rank(1)
    for rank in (one, other):
        rank.collective(range(2), 1)
    one.collective(range(2), 1)
    with pytest.raises(PlanError, match=r"rank 0 issues all_reduce number 2 .* rank 1 of it does not"):
        timed([one, other], [0, 1], [range(2)])


def test_ranks_that_receive_before_they_send_to_each_other_wait_for_ever():
    one, other = Rank(0), Rank(1)
    for rank in (one, other):
        received = rank.message("receive", range(2), 1 - rank.rank, 1)
        rank.message("send", range(2), 1 - rank.rank, 1, received)
    with pytest.raises(PlanError):
        timed([one, other], [0, 1], [range(2)])


def test_groups_that_cannot_be_told_apart_are_an_error():
    first, middle, last = Rank(0), Rank(1), Rank(4)
    first.message("send", (0, 1, 3), 1, 1)
    middle.message("receive", (0, 1, 3), 0, 1)
    middle.message("send", (0, 1, 3), 3, 1)
    last.compute(1)
    with pytest.raises((CaptureError, PlanError)):
        timed([first, middle, last], [0, 1, 1, 1, 2, 2], [(0, 1, 3)])


# ---- from captures -----------------------------------------------------------------------------------


def small(name: str, folder: Path, **sizes: object) -> str:
    """An example with other sizes."""
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    values = "\n".join(f"{key} = {value}" for key, value in sizes.items())
    head, marker, rest = text.partition("\n\n\nclass ")
    path = folder / name
    path.write_text(f"{head}\n{values}{marker}{rest}", encoding="utf-8")
    return f"{path}:build"


@pytest.fixture(scope="module")
def on_two_axes(tmp_path_factory: pytest.TempPathFactory) -> PlanForecast:
    file = small(
        "tensor_parallel_transformer.py", tmp_path_factory.mktemp("files"),
        WIDTH=256, INNER=512, HEADS=8, KV_HEADS=8, LAYERS=2, WORDS=512, LENGTH=128,
    )  # fmt: skip
    return predict_parallel_program(file, "dgx-h100:32", cost_model="roofline", with_spans=True, batch_size=2)


def test_a_program_on_two_axes_is_one_class(on_two_axes: PlanForecast):
    (rank,) = on_two_axes.time.ranks
    assert rank.num_equal == on_two_axes.num_devices == 32
    assert on_two_axes.plan is None
    assert on_two_axes.assumptions[0].startswith("2 of 32 ranks captured, of which 1 differ")


def test_its_batch_is_that_of_each_replica(on_two_axes: PlanForecast):
    """Four replicas of eight tensor-parallel ranks."""
    assert on_two_axes.num_tokens == 4 * 2 * 128
    assert on_two_axes.sequence_length == 128


def test_its_flops_are_those_of_the_whole_model(on_two_axes: PlanForecast):
    layer = 4 * 256 * 256 + 3 * 256 * 512
    assert on_two_axes.parameter_count == 2 * (layer + 2 * 256) + 2 * 256 * 512 + 256
    products = 6 * on_two_axes.num_tokens * (2 * layer + 256 * 512)
    scores = 2 * 3 * 4 * on_two_axes.num_tokens * 128 * 256
    # What looks the words up has no gradient to give further; the norms' are no products.
    assert on_two_axes.flops == pytest.approx(products + scores, rel=0.01)
    assert on_two_axes.dtype == "bf16"


def test_its_time_goes_to_both_kinds_of_collective(on_two_axes: PlanForecast):
    causes = on_two_axes.time.seconds_by_cause
    assert {"compute", "optimizer", "tensor", "data"} <= causes.keys()
    assert sum(causes.values()) == pytest.approx(on_two_axes.step_seconds)
    assert on_two_axes.step_seconds_low < on_two_axes.step_seconds < on_two_axes.step_seconds_high
    assert {span.stream for span in on_two_axes.time.spans} >= {"compute", "tensor", "data"}


def test_what_would_help_is_never_slower(on_two_axes: PlanForecast):
    assert on_two_axes.recommendations
    assert all(
        0 < recommendation.saved_seconds < on_two_axes.step_seconds
        for recommendation in on_two_axes.recommendations
    )
    assert "the host is never late" in {recommendation.name for recommendation in on_two_axes.recommendations}


def test_a_pipeline_has_a_bubble_and_its_stages_differ(tmp_path: Path):
    file = small(
        "pipeline_transformer.py", tmp_path, WIDTH=128, HEADS=4, LAYERS=2, WORDS=256, LENGTH=64,
        STAGES=2, MICRO_BATCHES=4,
    )  # fmt: skip
    forecast = predict_parallel_program(file, "dgx-h100:4", cost_model="roofline", recommendations=False)
    ranks = sorted((rank.rank, rank.stage, rank.num_equal) for rank in forecast.time.ranks)
    assert ranks == [(0, 0, 2), (2, 1, 2)]
    assert forecast.num_tokens == 2 * 4 * 64
    assert forecast.time.seconds_by_cause["bubble"] > 0
    layer = 4 * 128 * 128 + 4 * 128 + 8 * 128 * 128 + 5 * 128 + 4 * 128
    assert forecast.parameter_count == 2 * layer + 2 * 128 * 256


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("llama3-8b", {}, "runs a parallel FILE.py:FUNCTION of your own; llama3-8b takes --plan"),
        ("a.py:build", {"world_size": 7}, "--world-size 7 on dgx-h100"),
        ("a.py:build", {"compile": True}, "--compile is of one device"),
    ],
)
def test_what_does_not_fit_is_said(target: str, options: dict[str, object], message: str):
    with pytest.raises(PlanError, match=message):
        predict_parallel_program(target, "dgx-h100:8", **options)
