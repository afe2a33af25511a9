"""What answers the question of ``perfcast memory``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perfcast.errors import QuestionError
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.units import format_bytes
from perfcast.verbs.door import asks
from perfcast.verbs.memory.question import MemoryQuestion
from perfcast.verbs.memory.request import request_of
from perfcast.verbs.memory.result import MemoryResult, PlanMemoryResult
from perfcast.verbs.result import shown

if TYPE_CHECKING:
    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.largest import Largest, Probe
    from perfcast.prediction.one_device.largest import Quantity
    from perfcast.verbs.answer import OnProgress


def answer(
    asked: MemoryQuestion, *, on_progress: OnProgress | None = None
) -> MemoryResult | PlanMemoryResult:
    """The memory that is asked for; a search for the largest size that is interrupted gives the best so far.

    Raises:
        InputError: As of ``request_of``.
        KeyboardInterrupt: Before any size was known.
    """
    from perfcast.prediction.one_device.memory import forecast_memory
    from perfcast.prediction.plan.memory import forecast_plan_memory

    request = request_of(asked)
    if not isinstance(request, MemoryRequest):
        return shown(PlanMemoryResult, forecast_plan_memory(request), asked)
    largest: Largest | None = None
    if asked.largest_batch or asked.largest_sequence:
        quantity: Quantity = "batch_size" if asked.largest_batch else "sequence_length"
        forecast, largest = _search(request, quantity, on_progress)
    else:
        forecast = forecast_memory(request)
    comparison = None
    if asked.closed_form:
        from perfcast.prediction.one_device.closed_form import compare_with_closed_form

        comparison = compare_with_closed_form(request.workload, forecast)
    return shown(MemoryResult, forecast, asked, largest=largest, comparison=comparison)


def _search(
    request: MemoryRequest, quantity: Quantity, on_progress: OnProgress | None
) -> tuple[Forecast, Largest]:
    from perfcast.prediction.one_device.largest import LargestSearch

    search, words = LargestSearch(request, quantity), quantity.replace("_", " ")

    def tell(probe: Probe) -> None:
        if on_progress is not None:
            needs = format_bytes(probe.needed_bytes)
            on_progress(None, f"{words} {probe.size} needs {needs}; trying the next")

    if on_progress is not None:
        on_progress(None, f"trying {words}")
    try:
        search.run(tell)
    except KeyboardInterrupt:
        if not search.result.probes:
            raise
    return search.forecast(), search.result


def _answer_of_modules(asked: MemoryQuestion) -> MemoryResult:
    """The same of the model's own modules alone.

    Raises:
        QuestionError: Of a plan, or of another framework.
    """
    found = answer(
        asked if asked.framework or not asked.is_of_one_device else replace(asked, framework="pytorch")
    )
    if isinstance(found, PlanMemoryResult):
        raise QuestionError(
            "predict_memory is of one device that runs the model's own modules; see perfcast.memory"
        )
    return found


memory = asks(
    MemoryQuestion,
    answer,
    returns="Of the model's own modules on one device, or of a plan by the closed form: the peak, what it "
    "consists of, and whether it ``fits``.",
)
predict_memory = asks(
    MemoryQuestion,
    _answer_of_modules,
    returns="As ``memory``, of the model's own modules on one device alone.",
)
