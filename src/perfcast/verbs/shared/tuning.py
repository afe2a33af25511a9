"""What of a model trains, as every question about trainings says it."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.mode import Mode
from perfcast.core.tuning.text import parse_tuning
from perfcast.core.tuning.trained import Tuning
from perfcast.errors import QuestionError
from perfcast.verbs.question import Question


@dataclass(frozen=True, kw_only=True)
class TuningQuestion(Question):
    """What trains.

    Attributes:
        lora: Train low-rank adapters alone: rank=16,targets=all-linear (attention, mlp, q+v …); dropout,
            a2a=1.
        qlora: The same, the model's own matrices in four bits (NF4).
        freeze: What stays as it is: embedding, attention, mlp, experts, router, norms, head, layers:0-15.
    """

    lora: str | None = None
    qlora: str | None = None
    freeze: str | None = None

    def tuning(self, mode: Mode | None = None) -> Tuning:
        """What trains.

        Args:
            mode: Of the step; None: it trains.

        Raises:
            InputError: Values that no training can have, options that contradict.
            QuestionError: In inference.
        """
        named = self.said(("lora", "qlora", "freeze"))
        if named and mode not in (None, "train"):
            raise QuestionError(f"{', '.join(named)}: of a training; --mode {mode} has none")
        return parse_tuning(self.lora, self.qlora, self.freeze)
