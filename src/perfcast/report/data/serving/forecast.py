"""What JSON holds of a deployment under load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from perfcast.core.forecast.fit import all_fit, first_said
from perfcast.core.forecast.serving import Between, Latency, ServingForecast, ServingMethod, ServingRates
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.serving.deployment import Aggregated, Deployment, Pool
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, RecordedLoad
from perfcast.core.serving.outcome import Occupancy, Played
from perfcast.report.answers import Answer, view

PoolRole = Literal["all", "prefill", "decode"]
LoadKind = Literal["closed", "open", "recorded", "saturated"]
#: Rows of an occupancy, at most.
_MOST_ROWS = 500


@dataclass(frozen=True, kw_only=True)
class PoolData:
    """Equal replicas.

    Attributes:
        role: What they do: 'all', 'prefill' or 'decode'.
        replicas: Number of them.
        plan: Keys of the plan of one.
        num_devices: Of all of them.
    """

    role: PoolRole
    replicas: int
    plan: Plan
    num_devices: int


@dataclass(frozen=True, kw_only=True)
class LoadData:
    """How requests come.

    Attributes:
        kind: 'closed' (clients that wait), 'open' (a rate), 'recorded' (a file's times), 'saturated' (all at
            once).
        concurrency: Clients; null but in a closed load.
        requests_per_second: On average; null but in an open load.
        burstiness: Squared coefficient of variation of the time between two; null but in an open load.
    """

    kind: LoadKind
    concurrency: int | None = None
    requests_per_second: float | None = None
    burstiness: float | None = None


@dataclass(frozen=True, kw_only=True)
class OccupancyData:
    """What all replicas hold over time, in columns.

    Attributes:
        seconds: From the beginning; each row is true until the next.
        running: Requests that are being read or answered.
        waiting: Requests that have no place yet.
        kv_tokens: Tokens whose keys and values are held.
    """

    seconds: tuple[float, ...]
    running: tuple[int, ...]
    waiting: tuple[int, ...]
    kv_tokens: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RunData:
    """The requests that were played.

    Attributes:
        num_requests: Of all of the run.
        num_steps: Of all engines.
        preemptions: Requests that lost their place and were read again, each time.
        measured_from_seconds, measured_to_seconds: The window that figures are of.
        occupancy: Over the whole run, at most some hundred rows.
    """

    num_requests: int
    num_steps: int
    preemptions: int
    measured_from_seconds: float
    measured_to_seconds: float
    occupancy: OccupancyData


@dataclass(frozen=True, kw_only=True)
class FigureRow:
    """One figure with its 90 % interval.

    Attributes:
        figure: Its name, with its unit, and the statistic of a latency.
        value, low, high: In that unit.
    """

    figure: str
    value: float
    low: float
    high: float


def _figure(name: str, given: Between) -> FigureRow:
    return view(FigureRow, given, figure=name)


@dataclass(frozen=True, kw_only=True)
class FormData:
    """The same question by one of the two forms.

    Attributes:
        method: 'events' (every step is played) or 'closed_form' (the steady state by formula).
        time_to_first_token: From sending to the first token, in seconds, over requests.
        time_per_output_token: Of each further token, in seconds, over requests.
        end_to_end: From sending to the last token, in seconds, over requests.
        rates: What the deployment does in the long run.
        mean_batch: Requests that an engine has under way, mean over time.
        bound_by: Shares of time by what limits: 'compute', 'memory', 'communication', 'host', 'kv_memory'
            (places wait for memory), 'queue' (idle engines: the load is the limit); of sum 1.
        within_limits: Share of requests that keep all limits; null without limits.
        keeps_limits: Whether as many do as were asked for; null without limits.
        run: What was played; null of the closed form.
    """

    method: ServingMethod
    time_to_first_token: Latency
    time_per_output_token: Latency
    end_to_end: Latency
    rates: ServingRates
    mean_batch: float
    bound_by: Mapping[str, float]
    within_limits: Between | None
    keeps_limits: bool | None
    run: RunData | None

    @property
    def figures(self) -> tuple[FigureRow, ...]:
        """Latencies and rates, one after the other."""
        found: list[FigureRow] = []
        for name in ("time_to_first_token", "time_per_output_token", "end_to_end"):
            latency = getattr(self, name)
            found += (
                _figure(f"{name}_seconds.{one.name}", getattr(latency, one.name)) for one in fields(latency)
            )
        given = ((one.name, getattr(self.rates, one.name)) for one in fields(self.rates))
        found += (_figure(name, value) for name, value in given if value is not None)
        return tuple(found)


@dataclass(frozen=True, kw_only=True)
class ServingData(Answer):
    """One deployment under one load.

    Attributes:
        fits: Whether the device's memory holds it; no unit.
        verdict: The line with which the answer begins: what does not fit, or may not; empty where all
            surely fits.
        model: As asked for.
        device: Catalog name.
        cluster: Catalog name.
        num_devices: Of all replicas.
        pools: What serves.
        load: How requests come.
        program: What runs.
        dtype: Precision of the products.
        kv_cache_dtype: Format of keys and values.
        cost_model: What priced the kernels.
        kv_tokens: Tokens whose keys and values one engine's memory holds; of the pool that writes.
        memory_bytes: Of the device that needs most, in bytes.
        capacity_bytes: Of one device, in bytes.
        answer: By the form that was asked for; by events where both were.
        other: By the other form; null where it was not asked for.
        defaults: What was chosen where nothing was asked for, in words.
        assumptions: What was taken for granted.
    """

    table: ClassVar[str] = "forms[method].figures"

    fits: bool | None
    verdict: str
    model: str
    device: str
    cluster: str
    num_devices: int
    pools: tuple[PoolData, ...]
    load: LoadData
    program: StepProgram
    dtype: str
    kv_cache_dtype: str
    cost_model: str
    kv_tokens: int
    memory_bytes: int
    capacity_bytes: int
    answer: FormData
    other: FormData | None
    defaults: tuple[str, ...]
    assumptions: tuple[str, ...]

    @property
    def forms(self) -> tuple[FormData, ...]:
        """Both, the one that was asked for first."""
        return (self.answer,) if self.other is None else (self.answer, self.other)


def data_of(found: ServingForecast) -> ServingData:
    """Every figure in SI units."""
    return view(
        ServingData,
        found,
        fits=all_fit(found.fits),
        verdict=first_said(found.fits),
        pools=pools_of(found.deployment),
        load=load_of(found.load),
        answer=form_of(found),
        other=None if found.other is None else form_of(found.other),
    )


def form_of(found: ServingForecast) -> FormData:
    """The figures of one form."""
    return view(FormData, found, run=None if found.played is None else _run(found.played))


def pools_of(deployment: Deployment) -> tuple[PoolData, ...]:
    """One, or two."""

    def data(role: PoolRole, pool: Pool) -> PoolData:
        return view(PoolData, pool, role=role)

    if isinstance(deployment, Aggregated):
        return (data("all", deployment.pool),)
    return (data("prefill", deployment.prefill), data("decode", deployment.decode))


def load_of(load: Load) -> LoadData:
    """The load by its kind."""
    if isinstance(load, ClosedLoad):
        return LoadData(kind="closed", concurrency=load.concurrency)
    if isinstance(load, OpenLoad):
        rate, burstiness = load.requests_per_second, load.burstiness
        return LoadData(kind="open", requests_per_second=rate, burstiness=burstiness)
    return LoadData(kind="recorded" if isinstance(load, RecordedLoad) else "saturated")


def _run(played: Played) -> RunData:
    return view(
        RunData,
        played,
        num_requests=len(played.sent_seconds),
        preemptions=int(played.preemptions.sum()),
        occupancy=occupancy_of(played.occupancy),
    )


def occupancy_of(found: Occupancy) -> OccupancyData:
    """Rows evenly over the changes, the last always."""
    count = len(found.seconds)
    kept = sorted({*range(0, count, max(1, -(-count // _MOST_ROWS))), max(count - 1, 0)}) if count else []
    return OccupancyData(
        seconds=tuple(found.seconds[kept].tolist()),
        running=tuple(found.running[kept].tolist()),
        waiting=tuple(found.waiting[kept].tolist()),
        kv_tokens=tuple(found.kv_tokens[kept].tolist()),
    )
