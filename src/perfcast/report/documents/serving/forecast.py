"""A deployment under load: what clients wait, what it answers, holds and costs."""

from __future__ import annotations

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.serving import Between, Latency, ServingForecast
from perfcast.core.plans.text import format_plan
from perfcast.core.serving.deployment import Deployment, Disaggregated, Pool
from perfcast.core.serving.load import ClosedLoad, Load, OpenLoad, RecordedLoad
from perfcast.report.document import Block, Card, Column, Document, Fact, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.values import Unit, Value, format_value
from perfcast.units import HOUR

LATENCY_WORDS = {
    "time_to_first_token": "First token",
    "time_per_output_token": "Further token",
    "end_to_end": "Whole answer",
}
BOUND_WORDS = {
    "compute": "arithmetic",
    "memory": "memory traffic",
    "communication": "communication",
    "host": "the host",
    "kv_memory": "places that wait for memory",
    "queue": "engines without work",
}
METHOD_WORDS = {"events": "events", "closed_form": "closed form"}


def document_of(found: ServingForecast) -> Document:
    """The headline, latencies over requests, rates, what limits, the other form beside."""
    blocks: list[Block] = [_latencies(found), _rates(found), _bounds(found)]
    return Document(
        title=f"{found.model} on {found.num_devices} × {found.device} ({found.cluster})",
        verdict=first_said(found.fits),
        lead=(
            f"serving · {found.dtype}, keys and values in {found.kv_cache_dtype} · "
            f"{describe_deployment(found.deployment)} · {describe_load(found.load)}"
        ),
        cards=_cards(found),
        facts=(*program_facts(found.program, found.defaults), *_facts(found)),
        blocks=tuple(blocks),
        assumptions=found.assumptions,
    )


def describe_deployment(deployment: Deployment) -> str:
    """``2 replicas of tp=4``, or those of both pools."""
    if isinstance(deployment, Disaggregated):
        return (
            f"prompts by {describe_pool(deployment.prefill)}, answers by {describe_pool(deployment.decode)}"
        )
    return describe_pool(deployment.pool)


def describe_pool(pool: Pool) -> str:
    """``2 replicas of tp=4``."""
    words = " ".join(part for part in format_plan(pool.plan).split(",") if not part.startswith("mbs="))
    devices = words or ("one device" if pool.plan.world_size == 1 else f"{pool.plan.world_size} devices")
    return f"{pool.replicas:,} {'replica' if pool.replicas == 1 else 'replicas'} of {devices}"


def describe_load(load: Load) -> str:
    """How requests come, in a few words."""
    if isinstance(load, ClosedLoad):
        return f"{load.concurrency:,} {'client' if load.concurrency == 1 else 'clients'}"
    if isinstance(load, OpenLoad):
        kind = "Poisson" if load.burstiness == 1 else f"burstiness {load.burstiness:g}"
        return f"{load.requests_per_second:g} requests/s ({kind})"
    return "at recorded times" if isinstance(load, RecordedLoad) else "all at once"


def _cards(found: ServingForecast) -> tuple[Card, ...]:
    rates = found.rates
    cards = [
        _card("Time to first token", found.time_to_first_token.median, "s", "median"),
        _card("Time per output token", found.time_per_output_token.median, "s", "median"),
        _card("Throughput", rates.output_tokens_per_second, "tokens/s", _of_one_device(found)),
    ]
    if rates.goodput_requests_per_second is not None:
        cards.append(_card("Goodput", rates.goodput_requests_per_second, "requests/s", "within all limits"))
    if rates.dollars_per_million_output_tokens is not None:
        per = rates.dollars_per_million_output_tokens
        cards.append(_card("Cost", per, "$", "of a million output tokens"))
    return tuple(cards)


def _of_one_device(found: ServingForecast) -> str:
    each = format_value(found.rates.output_tokens_per_second_per_device.value, "count")
    user = format_value(found.rates.output_tokens_per_second_per_user.value, "count")
    return f"{each} of one device, {user} of one user"


def _card(label: str, between: Between, unit: Unit, detail: str) -> Card:
    return Card(
        label=label,
        value=between.value,
        unit=unit,
        low=between.low,
        high=between.high,
        confidence=0.9,
        detail=detail,
    )


def _facts(found: ServingForecast) -> tuple[Fact, ...]:
    held = f"{found.kv_tokens:,} tokens of keys and values in one engine"
    facts = [Fact("Memory", held)]
    if found.played is not None:
        count, steps = len(found.played.sent_seconds), found.played.num_steps
        again = int(found.played.preemptions.sum())
        read_again = f"; {again:,} times a request was read again" if again else ""
        facts.append(Fact("Played", f"{count:,} requests in {steps:,} steps{read_again}"))
    facts.append(Fact("Under way", f"{found.mean_batch:,.1f} requests in an engine on average"))
    return tuple(facts)


def _latencies(found: ServingForecast) -> Section:
    columns = (
        Column(""),
        *(Column(heading, "s") for heading in ("Mean", "Median", "90 %", "99 %")),
        Column("Median with 90 %"),
        Column("By"),
    )
    rows = []
    for form in (found, *(() if found.other is None else (found.other,))):
        for name, words in LATENCY_WORDS.items():
            rows.append(_latency_row(words, getattr(form, name), METHOD_WORDS[form.method]))
    return Section(title="What clients wait", blocks=(Table(columns=columns, rows=tuple(rows)),))


def _latency_row(words: str, latency: Latency, method: str) -> tuple[Value, ...]:
    values = (latency.mean, latency.median, latency.p90, latency.p99)
    return (words, *(each.value for each in values), _ends(latency.median, "s"), method)


def _ends(between: Between, unit: Unit) -> str:
    return " – ".join(format_value(end, unit) for end in (between.low, between.high))


def _rates(found: ServingForecast) -> Section:
    words: dict[str, tuple[str, Unit]] = {
        "requests_per_second": ("Requests", "requests/s"),
        "output_tokens_per_second": ("Output", "tokens/s"),
        "input_tokens_per_second": ("Input", "tokens/s"),
        "output_tokens_per_second_per_device": ("Output of one device", "tokens/s"),
        "output_tokens_per_second_per_user": ("Output of one user", "tokens/s"),
        "goodput_requests_per_second": ("Within all limits", "requests/s"),
        "dollars_per_million_input_tokens": ("A million input tokens", "$"),
        "dollars_per_million_output_tokens": ("A million output tokens", "$"),
        "joules_per_million_output_tokens": ("A million output tokens", "Wh"),
    }
    rows = []
    for name, (label, unit) in words.items():
        between: Between | None = getattr(found.rates, name)
        if between is None:
            continue
        if unit == "Wh":
            between = Between(*(part / HOUR for part in (between.value, between.low, between.high)))
        rows.append((label, format_value(between.value, unit), _ends(between, unit)))
    columns = (Column(""), Column("Rate"), Column("With 90 %"))
    return Section(title="What it answers", blocks=(Table(columns=columns, rows=tuple(rows)),))


def _bounds(found: ServingForecast) -> Section:
    shares = sorted(found.bound_by.items(), key=lambda pair: -pair[1])
    rows = tuple((BOUND_WORDS.get(name, name), share) for name, share in shares)
    columns = (Column("By"), Column("Share of time", "share", has_bar=True))
    return Section(title="What limits", blocks=(Table(columns=columns, rows=rows),))
