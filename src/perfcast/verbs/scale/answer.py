"""What answers the question of ``perfcast scale``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from perfcast.errors import PlanError, QuestionError
from perfcast.verbs.door import asks
from perfcast.verbs.question import each
from perfcast.verbs.result import shown
from perfcast.verbs.scale.limits import limits_of
from perfcast.verbs.scale.question import ScaleQuestion
from perfcast.verbs.scale.request import inference_request_of, training_request_of
from perfcast.verbs.scale.result import BatchesResult, LimitsResult, ScaleResult

if TYPE_CHECKING:
    from perfcast.verbs.answer import OnProgress


def answer(
    asked: ScaleQuestion, *, on_progress: OnProgress | None = None
) -> ScaleResult | BatchesResult | LimitsResult:
    """The curves that are asked for, or the limits of scaling.

    Raises:
        InputError: Unknown names, values that no curve can have, no point with a forecast.
        QuestionError: Options that contradict, that are missing, or that what is asked has no use for.
    """
    if asked.limits:
        if asked.model or asked.clusters:
            raise QuestionError("--limits has no model and no cluster")
        return shown(LimitsResult, limits_of(each(asked.assume), asked.data), asked)
    idle = asked.said(("assume", "data"))
    if idle:
        raise QuestionError(f"{', '.join(idle)}: of --limits")
    if asked.model is None or not asked.clusters:
        raise QuestionError("give MODEL and --cluster with --devices, or --limits")
    if asked.scaled_mode == "train":
        return _training(asked.model, asked, _teller(on_progress))
    return _inference(asked.model, asked, _teller(on_progress))


def _teller(on_progress: OnProgress | None) -> Callable[[str], None]:
    return (lambda text: None) if on_progress is None else lambda text: on_progress(None, text)


def _training(model: str, asked: ScaleQuestion, tell: Callable[[str], None]) -> ScaleResult:
    from perfcast.prediction.sweep.scale import predict_scaling

    found = predict_scaling(
        training_request_of(model, asked), lambda name, count: tell(f"{name}: {count:,} devices")
    )
    points = [point for curve in found.curves for point in curve.points]
    _check_any({f"{point.num_devices} devices": point.skipped for point in points})
    return shown(ScaleResult, found, asked)


def _inference(model: str, asked: ScaleQuestion, tell: Callable[[str], None]) -> BatchesResult:
    from perfcast.prediction.sweep.batches import sweep_batches

    found = sweep_batches(
        inference_request_of(model, asked),
        lambda batch, context: tell(f"{batch:,} sequences of {context:,} tokens"),
    )
    _check_any({f"{p.batch_size} sequences of {p.context_length} tokens": p.skipped for p in found.points})
    return shown(BatchesResult, found, asked)


def _check_any(skipped: dict[str, str]) -> None:
    """Raises PlanError where no point has a forecast: ``skipped`` says of each why, '' of one that has."""
    if all(skipped.values()):
        point, reason = next(iter(skipped.items()))
        more = f", and the other {len(skipped) - 1} neither" if len(skipped) > 1 else ""
        raise PlanError(f"{point} cannot be forecast{more}: {reason}")


scale = asks(
    ScaleQuestion,
    answer,
    returns="Curves over devices, or over batches and contexts; with ``limits`` how large a run can be.",
)
