from __future__ import annotations

from perfcast.core.collective import num_groups
from perfcast.core.dtype import DType
from perfcast.core.work import Call, Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.tape import Tape

ADD = kernels.elementwise("add", (kernels.tensor(DType.BF16, 8),), (kernels.tensor(DType.BF16, 8),))


def reduce(tape: Tape, stream: Stream = Stream.TENSOR, *, is_awaited: bool = True) -> int | None:
    return tape.collective("all_reduce", 16, range(2), stream, "reduce", world_size=8, is_awaited=is_awaited)


def after(tape: Tape) -> list[tuple[int, ...]]:
    return [call.after for call in tape.calls()]


def test_a_kernel_waits_for_the_collective_and_the_collective_for_the_kernel_before_it():
    tape = Tape()
    tape.run(ADD, "one")
    reduce(tape)
    tape.run(ADD, "two")
    tape.run(ADD, "three")
    assert after(tape) == [(), (0,), (1,), ()]


def test_a_collective_may_run_beside_kernels_until_someone_waits():
    tape = Tape()
    tape.run(ADD, "one")
    arriving = reduce(tape, is_awaited=False)
    tape.run(ADD, "beside")
    tape.wait(arriving)
    tape.wait(arriving)
    tape.run(ADD, "behind")
    assert after(tape) == [(), (0,), (), (1,)]


def test_a_collective_waits_for_one_on_another_stream():
    tape = Tape()
    tape.run(ADD, "one")
    reduce(tape)
    reduce(tape, Stream.EXPERT)
    assert after(tape) == [(), (0,), (0, 1)]


def test_nobody_exchanges_alone():
    tape = Tape()
    assert tape.collective("all_reduce", 16, range(1), Stream.TENSOR, "reduce", world_size=8) is None
    tape.wait(None)
    assert tape.calls() == ()


def test_all_groups_of_a_shape_exchange_at_once():
    tape = Tape()
    reduce(tape)
    assert num_groups(tape.calls()[0].operation) == 4


def test_an_added_sequence_waits_and_is_waited_for():
    """It begins with a collective, which follows the last kernel, and ends with one that the next awaits."""
    inner = Tape()
    reduce(inner)
    inner.run(ADD, "inner")
    reduce(inner)
    tape = Tape()
    tape.run(ADD, "one")
    tape.add(inner.calls())
    tape.run(ADD, "two")
    assert after(tape) == [(), (0,), (1,), (2,), (3,)]


def test_what_is_recorded_while_recomputing_is_marked():
    tape = Tape()
    with tape.recomputing():
        tape.run(ADD, "again")
        tape.add((Call(ADD, module="added"),))
    tape.run(ADD, "new")
    assert [call.is_recomputed for call in tape.calls()] == [True, True, False]
