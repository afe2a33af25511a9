"""How requests come: from clients that wait for their answers, from the world outside, or all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from perfcast.errors import InputError
from perfcast.units import GIGA


@dataclass(frozen=True, slots=True)
class ClosedLoad:
    """So many clients, each of which sends its next request when its answer is complete.

    Attributes:
        concurrency: Clients, over all replicas.
    """

    concurrency: int

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= 10**7:
            raise InputError(f"concurrency {self.concurrency}: between 1 and 10,000,000 clients")


@dataclass(frozen=True, slots=True)
class OpenLoad:
    """Requests at a rate, whatever becomes of them.

    Attributes:
        requests_per_second: On average, over all replicas.
        burstiness: Squared coefficient of variation of the time between two (gamma distributed): 1 is
            Poisson, 0 a metronome, above 1 bursts.
    """

    requests_per_second: float
    burstiness: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.requests_per_second < GIGA:
            raise InputError(f"{self.requests_per_second:g} requests per second: must be above 0")
        if not 0 <= self.burstiness <= 1e3:
            raise InputError(f"burstiness {self.burstiness:g}: between 0 (even) and 1000")


@dataclass(frozen=True, slots=True)
class RecordedLoad:
    """Requests at the times of a recording."""


@dataclass(frozen=True, slots=True)
class SaturatedLoad:
    """All requests wait at the door from the beginning."""


Load = ClosedLoad | OpenLoad | RecordedLoad | SaturatedLoad

#: Over what figures are taken: all requests, the first wave included, as benchmark clients do; or without the
#: beginning and the end.
MeasuredWindow = Literal["all", "steady"]
MEASURED_WINDOWS: tuple[MeasuredWindow, ...] = get_args(MeasuredWindow)
