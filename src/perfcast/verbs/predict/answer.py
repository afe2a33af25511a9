"""What answers the question of ``perfcast predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.prediction.request.one_device import OneDeviceRequest
from perfcast.prediction.request.parallel_program import ParallelProgramRequest
from perfcast.prediction.request.plan import PlanRequest
from perfcast.verbs.door import asks
from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.predict.request import request_of
from perfcast.verbs.predict.result import PlanResult, RecommenderResult, StepResult
from perfcast.verbs.result import shown
from perfcast.verbs.shared.run import run_request_of

if TYPE_CHECKING:
    from perfcast.prediction.step.priced import PricedStep
    from perfcast.verbs.answer import OnProgress
    from perfcast.verbs.predict.request import StepRequest

PredictResult = StepResult | PlanResult | RecommenderResult


def answer(
    asked: PredictQuestion, *, on_progress: OnProgress | None = None, with_timeline: bool = True
) -> PredictResult:
    """The step that is asked for.

    Args:
        with_timeline: Whether what happens when under a plan is kept, which takes longer.

    Raises:
        InputError: As of ``request_of``; values that no run can have.
    """
    return answer_request(asked, request_of(asked, with_timeline=with_timeline))


def answer_request(asked: PredictQuestion, request: StepRequest) -> PredictResult:
    """The step that the question's request asks.

    Raises:
        InputError: As of ``answer``.
    """
    if isinstance(request, OneDeviceRequest):
        from perfcast.prediction import predict_one_device

        return shown(StepResult, predict_one_device(request), asked)
    if isinstance(request, ParallelProgramRequest):
        from perfcast.prediction.parallel_program.predict import forecast_parallel_program

        return shown(PlanResult, forecast_parallel_program(request), asked, run=None)
    if isinstance(request, PlanRequest):
        return answer_plan(asked, request)[0]
    from perfcast.prediction.recommender.predict import forecast_recommender

    return shown(RecommenderResult, forecast_recommender(request), asked)


def answer_plan(asked: PredictQuestion, request: PlanRequest) -> tuple[PlanResult, PricedStep]:
    """The step under a plan, the whole run if one is asked for, and the prices that they rest on.

    Raises:
        InputError: As of ``answer``.
    """
    from perfcast.prediction.run.predict import predict_run
    from perfcast.prediction.step.predict import forecast_step
    from perfcast.prediction.step.priced import price_request

    assert not isinstance(request.cluster, str)
    priced = price_request(request)
    run_request = run_request_of(request.cluster.device, asked)
    forecast = forecast_step(priced, request)
    run = None
    if run_request is not None:
        run = predict_run(forecast, run_request, request.model, priced.planned.step.device)
    return shown(PlanResult, forecast, asked, run=run), priced


predict = asks(
    PredictQuestion,
    answer,
    returns="A step of the model's own modules on one device, of a plan, or of a recommendation model: "
    "``step_seconds`` with its interval, ``memory``, ``assumptions``.",
)
