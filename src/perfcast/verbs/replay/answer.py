"""What answers the question of ``perfcast replay``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perfcast.errors import QuestionError
from perfcast.verbs.door import asks
from perfcast.verbs.replay.question import ReplayQuestion
from perfcast.verbs.replay.request import request_of
from perfcast.verbs.replay.result import Replayed, ReplayResult
from perfcast.verbs.result import shown

if TYPE_CHECKING:
    from perfcast.replays.judge.fidelity import Fidelity
    from perfcast.replays.prepare import Prepared
    from perfcast.replays.request import ReplayRequest
    from perfcast.verbs.answer import OnProgress


def answer(asked: ReplayQuestion, *, on_progress: OnProgress | None = None) -> ReplayResult:
    """The step, played in processes that are started here.

    Raises:
        InputError: As of ``request_of``; a trace that cannot be read, prepared or played.
    """
    from perfcast.replays.prepare import prepare

    if asked.repeat == 0:
        raise QuestionError("--repeat 0 measures nothing; it goes with --generate")
    request = request_of(asked)
    return result_of(asked, play(request, prepare(request), on_progress))


def play(
    request: ReplayRequest, prepared: Sequence[Prepared], on_progress: OnProgress | None
) -> tuple[Fidelity, ...]:
    """Every rank's replay beside its original; where one rank plays, its repetitions are told."""
    from perfcast.replays.replay import replay as replay_prepared

    total = request.play.repeats + request.play.warm_up
    is_alone = (request.num_ranks or len(prepared)) == 1

    def advance(number: int) -> None:
        if on_progress is not None and is_alone:
            on_progress((number + 1) / total, f"repetition {number + 1} of {total}")

    return replay_prepared(request, prepared, on_repetition=advance)


def result_of(asked: ReplayQuestion, found: tuple[Fidelity, ...]) -> ReplayResult:
    """What was found, as it shows itself."""
    return shown(ReplayResult, Replayed(ranks=found), asked)


replay = asks(ReplayQuestion, answer, returns="Times of the replay beside those of the recording, by rank.")
