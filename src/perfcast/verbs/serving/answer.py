"""What answers the question of ``perfcast serving``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.verbs.door import asks
from perfcast.verbs.result import shown
from perfcast.verbs.serving.question import ServingQuestion
from perfcast.verbs.serving.request import request_of, sweep_of
from perfcast.verbs.serving.result import ServingResult, ServingSweepResult

if TYPE_CHECKING:
    from perfcast.verbs.answer import OnProgress


def answer(
    asked: ServingQuestion, *, on_progress: OnProgress | None = None, with_timeline: bool = False
) -> ServingResult | ServingSweepResult:
    """The deployment under its load, or under every load of ``sweep``.

    Args:
        with_timeline: Whether steps are kept even where no window says which.

    Raises:
        InputError: As of ``request_of``; a deployment that model or cluster cannot follow.
    """
    from perfcast.prediction.serving.predict import predict_serving
    from perfcast.prediction.serving.sweep import sweep_serving

    if not asked.sweep:
        request = request_of(asked, with_timeline=with_timeline)
        return shown(ServingResult, predict_serving(request), asked)
    points, begun = sweep_of(asked), iter(range(10**9))

    def tell(values: object) -> None:
        if on_progress is not None and isinstance(values, dict):
            on_progress(next(begun) / len(points), " ".join(values.values()))

    return shown(ServingSweepResult, sweep_serving(points, tell), asked)


serving = asks(
    ServingQuestion,
    answer,
    returns="A deployment under one load: what its clients wait, what it answers, holds and costs; with "
    "``sweep`` under many.",
)
