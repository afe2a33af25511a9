"""What is asked of a search for inference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from perfcast.core.dtype import AUTO
from perfcast.core.mode import Mode
from perfcast.core.plans.text import PlanValue
from perfcast.cost.model import CostModel
from perfcast.errors import PlanError
from perfcast.prediction.model import Model
from perfcast.searches.prices_file import PriceList

PHASES: tuple[Mode, ...] = ("prefill", "decode")
#: What clusters and plans of inference are ordered by: the rate of a device, or what a token costs.
ServingObjective = Literal["tokens-per-second", "dollars-per-token"]
SERVING_OBJECTIVES: tuple[ServingObjective, ...] = get_args(ServingObjective)


@dataclass(frozen=True, kw_only=True)
class ServingSearchRequest:
    """Inference that is served within limits, on one or several clusters.

    Attributes:
        clusters: Names with ``:N``, or files; several are compared.
        mode: 'prefill' (tokens of prompts a second count) or 'decode' (tokens of answers).
        context_length: Tokens of a prompt, and of the cache when a token is written.
        dtype: Of weights; 'auto' takes what is usual for model and device.
        framework: Whose program answers; None: what is usual for the model.
        max_first_seconds: Until the first token of all sequences of a batch; None: no limit.
        max_token_seconds: For each further token; None: no limit.
        fixed: Degrees that the user has decided, by ``space.KEYS``.
        max_memory_fraction: Of the device's memory that a plan may take.
        batch_size: Sequences that are answered at once; None tries all.
        cost_models: By device; a name or an object. Devices that are not there take the default.
        prices: Of a device and hour; None: nothing costs.
        top: Plans that a result ranks.
    """

    model: Model
    mode: Mode
    clusters: tuple[str, ...]
    context_length: int | None = None
    dtype: str = AUTO
    kv_cache_dtype: str | None = None
    framework: str | None = None
    max_first_seconds: float | None = None
    max_token_seconds: float | None = None
    fixed: Mapping[str, PlanValue] = field(default_factory=dict)
    max_memory_fraction: float = 1.0
    batch_size: int | None = None
    cost_models: Mapping[str, str | CostModel | None] = field(default_factory=dict)
    objective: ServingObjective = "tokens-per-second"
    prices: PriceList | None = None
    top: int = 10

    def __post_init__(self) -> None:
        if self.mode not in PHASES:
            raise PlanError(f"--mode {self.mode}: inference is searched for prefill or decode")
        limits = {"--max-ttft": self.max_first_seconds, "--max-tpot": self.max_token_seconds}
        for option, seconds in limits.items():
            if seconds is not None and not 0 < seconds < math.inf:
                raise PlanError(f"{option} {seconds:g}: must be a number of seconds above 0")
        if self.mode == "prefill" and self.max_token_seconds is not None:
            raise PlanError("--max-tpot is of --mode decode; a prefill writes no further tokens")

    @property
    def phases(self) -> tuple[Mode, ...]:
        """What has to be forecast: the mode, and prefill where its time is limited."""
        return PHASES if self.mode == "decode" and self.max_first_seconds is not None else (self.mode,)
