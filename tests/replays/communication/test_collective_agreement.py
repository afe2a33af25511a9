from __future__ import annotations

import pytest

from made_up_collectives import ProgramWriter
from perfcast.replays.communication.agreement import disagreement, parts_of
from perfcast.replays.program.program import ReplayProgram


def all_to_all(rank: int, sent: tuple[int, ...], received: tuple[int, ...]) -> ReplayProgram:
    writer = ProgramWriter(rank=rank)
    into, source = writer.tensor(sum(received)), writer.tensor(sum(sent))
    writer.collective("all_to_allv", [into], [source], received_splits=received, sent_splits=sent)
    return writer.program()


def one(name: str, rank: int, elements: int = 8, root: int | None = None, times: int = 1) -> ReplayProgram:
    writer = ProgramWriter(rank=rank)
    tensor = writer.tensor(elements)
    for _ in range(times):
        writer.collective(name, [tensor], root=root)
    return writer.program()


def found(*programs: ReplayProgram) -> str:
    return disagreement([parts_of(program) for program in programs])


def test_ranks_that_exchange_the_same_agree():
    assert found(one("allreduce", 0), one("allreduce", 1)) == ""
    assert found(all_to_all(0, (1, 2), (1, 3)), all_to_all(1, (3, 4), (2, 4))) == ""


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (one("allreduce", 0), one("broadcast", 1), "collective 0, is all_reduce of float32 on rank 0"),
        (one("allreduce", 0), one("allreduce", 1, 9), "rank 0 has 8 elements and rank 1 has 9"),
        (one("allreduce", 0, times=2), one("allreduce", 1), "rank 0 has collective 1 .* rank 1 has no more"),
        (one("broadcast", 0, root=0), one("broadcast", 1, root=1), "the root is 0 on rank 0 and 1 on rank 1"),
        (
            all_to_all(0, (1, 2), (1, 3)),
            all_to_all(1, (3, 4), (5, 4)),
            "rank 0 sends 2 elements to rank 1, which expects 5",
        ),
        (one("send", 0, root=1), one("send", 1, root=0), "sends 1 messages of 8 elements .* expects none"),
    ],
)
def test_what_would_never_end_is_told_before(first: ReplayProgram, second: ReplayProgram, message: str):
    import re

    assert re.search(message, found(first, second))


def test_a_message_needs_both_of_its_ends():
    assert found(one("send", 0, root=1), one("recv", 1, root=0)) == ""
