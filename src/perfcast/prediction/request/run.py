"""What is asked of a whole run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.errors import PlanError
from perfcast.units import GIGA, HOUR, MINUTE

CheckpointRule = Literal["daly", "young"]
CHECKPOINT_RULES: tuple[CheckpointRule, ...] = get_args(CheckpointRule)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a run is; None takes a published figure, which the forecast states.

    Attributes:
        tokens: To train on.
        between_interruptions_seconds: Mean, of one device; infinite for none at all.
        restart_seconds: From an interruption to the first step after it, without reading the checkpoint.
        checkpoint_interval_seconds: Of work between two checkpoints; None takes ``checkpoint_rule``.
        checkpoint_rule: 'daly' or 'young': which optimum.
        checkpoint_bytes_per_second: To storage, of all devices together.
        is_asynchronous: Whether steps go on while a copy in the hosts' memory is written.
        pue: Power of the site over that of its servers.
        dollars_per_device_hour: None leaves dollars out.
        price_source: Where the price comes from.
    """

    tokens: float
    between_interruptions_seconds: float | None = None
    restart_seconds: float | None = None
    checkpoint_interval_seconds: float | None = None
    checkpoint_rule: CheckpointRule = "daly"
    checkpoint_bytes_per_second: float | None = None
    is_asynchronous: bool = False
    pue: float | None = None
    dollars_per_device_hour: float | None = None
    price_source: str = ""

    def __post_init__(self) -> None:
        for option, value, unit in (
            ("--tokens", self.tokens, 1.0),
            ("--mtbf", self.between_interruptions_seconds, HOUR),
            ("--checkpoint-interval", self.checkpoint_interval_seconds, MINUTE),
            ("--checkpoint-bandwidth", self.checkpoint_bytes_per_second, GIGA),
        ):
            if value is not None and not value > 0:
                raise PlanError(f"{option} {value / unit:g}: must be above 0")
        if not math.isfinite(self.tokens):
            raise PlanError(f"--tokens {self.tokens:g}: must be finite")
        if self.restart_seconds is not None and not 0 <= self.restart_seconds < math.inf:
            raise PlanError(f"--restart {self.restart_seconds / MINUTE:g}: must not be below 0, and finite")
        if self.pue is not None and not self.pue >= 1:
            raise PlanError(f"--pue {self.pue:g}: a site draws no less than its servers, so at least 1")
        if self.dollars_per_device_hour is not None and not self.dollars_per_device_hour >= 0:
            raise PlanError(f"--price {self.dollars_per_device_hour:g}: must not be below 0")
        if self.checkpoint_rule not in CHECKPOINT_RULES:
            raise PlanError(f"--checkpoint-interval {self.checkpoint_rule}: minutes, or 'daly' or 'young'")
