"""A search over deployments: the best, what each gives up, and throughput against a user's speed."""

from __future__ import annotations

from collections.abc import Sequence

from perfcast.core.forecast.serving import Latency
from perfcast.report import palette
from perfcast.report.document import Block, Card, Column, Command, Document, Fact, Items, Section, Table
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.serving.describe import BOUNDS, describe_deployment, describe_load
from perfcast.report.figure import Axis, Curve, Figure
from perfcast.report.values import Value
from perfcast.searches.serving.result import DeploymentSearchResult, FoundDeployment
from perfcast.units import MEGA, format_count, format_seconds

_STATISTICS = {"mean": "on average", "median": "of half the requests", "p90": "of 90 % of the requests",
               "p99": "of 99 % of the requests"}  # fmt: skip


def document_of(found: DeploymentSearchResult) -> Document:
    """Everything that was found."""
    best = found.winner
    blocks: list[Block] = [
        Section(title="The best deployment again", blocks=(Command(best.command),)),
        Section(
            title="Deployments that keep the limits, the best first",
            blocks=(_ranked(found), Items(_gives_up(found.ranked)), Items(tuple(found.failed.items()))),
        ),
        Section(
            title="Throughput of a device against the speed that a user sees",
            blocks=(front_figure(found), _front(found)),
            only="page",
        ),
    ]
    return Document(
        title=f"{found.model} on {best.num_devices:,} × {best.request.cluster.device} ({best.cluster})",
        lead=_lead(found),
        cards=_cards(found),
        facts=(*program_facts(found.program, found.defaults), Fact("Searched", _searched(found))),
        blocks=tuple(blocks),
        assumptions=found.assumptions,
    )


def _lead(found: DeploymentSearchResult) -> str:
    """Lengths, load and limits in one line."""
    request, limits = found.request, found.request.limits
    parts = [f"prompts of {request.prompts.text} tokens, answers of {request.answers.text}"]
    parts.append(
        "as many clients as the limits allow" if request.load is None else describe_load(request.load)
    )
    asked = (
        ("first token", limits.time_to_first_token_seconds),
        ("each further one", limits.time_per_output_token_seconds),
        ("whole answer", limits.end_to_end_seconds),
    )
    said = [f"{name} within {format_seconds(seconds)}" for name, seconds in asked if seconds is not None]
    return " · ".join([*parts, *said, *([_STATISTICS[request.statistic]] if said else [])])


def _searched(found: DeploymentSearchResult) -> str:
    said = (
        f"{found.num_deployments:,} deployments of {found.num_replicas:,} replicas by formula, "
        f"{found.num_kept:,} keep the limits, {found.num_played} played by events"
    )
    if found.disagreement is None:
        return said
    first, token = found.disagreement
    return f"{said}; formula and events are {first:.0%} (first token) and {token:.1%} (each token) apart"


def describe_found(found: FoundDeployment) -> str:
    """Deployment and what of its engines was chosen, in a line."""
    engine = found.request.engine
    cached = f", {found.request.kv_cache_dtype} cache" if found.request.kv_cache_dtype else ""
    return (
        f"{describe_deployment(found.deployment)}, {found.request.dtype}{cached}, "
        f"{engine.max_step_tokens:,} tokens a step, {engine.max_sequences:,} sequences"
    )


def _cards(found: DeploymentSearchResult) -> tuple[Card, ...]:
    best = found.winner
    each = format_count(best.tokens_per_second_per_user)
    forecast, rate = best.forecast, best.tokens_per_second_per_device
    first, token = (
        (None, None) if forecast is None else (forecast.time_to_first_token, forecast.time_per_output_token)
    )
    deployment, load = describe_deployment(best.deployment), describe_load(best.load)
    cards = [
        Card(label="Best deployment", value=deployment, detail=load),
        Card(label="Throughput of a device", value=rate, unit="tokens/s", detail=f"{each} of a user"),
        _seconds(found, "First token", best.first_seconds, first),
        _seconds(found, "Each token", best.token_seconds, token),
    ]
    if best.dollars_per_token is not None:
        cards.append(
            Card(
                label="Cost",
                value=MEGA * best.dollars_per_token,
                unit="$",
                detail="per million output tokens",
            )
        )
    bound = max(best.bound_by, key=lambda name: best.bound_by[name])
    cards.append(
        Card(label="Limited by", value=BOUNDS[bound][0], detail=f"{best.bound_by[bound]:.0%} of the time")
    )
    return tuple(cards)


def _seconds(found: DeploymentSearchResult, label: str, seconds: float, latency: Latency | None) -> Card:
    if latency is None:
        return Card(label=label, value=seconds, unit="s", detail=found.request.statistic)
    figure = getattr(latency, found.request.statistic)
    return Card(
        label=label,
        value=seconds,
        unit="s",
        low=figure.low,
        high=figure.high,
        confidence=0.9,
        detail=found.request.statistic,
    )


def _columns(found: DeploymentSearchResult) -> tuple[Column, ...]:
    return (
        Column("Devices", "number", short="Dev"),
        Column("Clients", "number", missing=""),
        Column("First token", "s", short="First"),
        Column("Each token", "s", short="Token"),
        Column("Tokens/s a device", "count", short="/s/dev"),
        Column("Tokens/s a user", "count", short="/s/user"),
        *((Column("$ of a million", "g", short="$/Mtok"),) if _has_cost(found) else ()),
        Column("Limited by", only="page"),
        Column("Deployment"),
        *((Column("Cluster"),) if len({each.cluster for each in found.ranked}) > 1 else ()),
    )


def _has_cost(found: DeploymentSearchResult) -> bool:
    return found.winner.dollars_per_token is not None


def _row(found: DeploymentSearchResult, each: FoundDeployment) -> tuple[Value, ...]:
    bound = max(each.bound_by, key=lambda name: each.bound_by[name])
    clients = getattr(each.load, "concurrency", None)
    dollars = each.dollars_per_token
    return (
        each.num_devices,
        clients,
        each.first_seconds,
        each.token_seconds,
        each.tokens_per_second_per_device,
        each.tokens_per_second_per_user,
        *((None if dollars is None else MEGA * dollars,) if _has_cost(found) else ()),
        BOUNDS[bound][0],
        describe_found(each),
        *((each.cluster,) if len({one.cluster for one in found.ranked}) > 1 else ()),
    )


def _ranked(found: DeploymentSearchResult) -> Table:
    return Table(columns=_columns(found), rows=tuple(_row(found, each) for each in found.ranked))


def _front(found: DeploymentSearchResult) -> Table:
    return Table(
        columns=_columns(found), rows=tuple(_row(found, each) for each in found.front), things="deployments"
    )


def _gives_up(ranked: Sequence[FoundDeployment]) -> tuple[tuple[str, str], ...]:
    """Of the next best, beside the first."""
    return tuple(
        (f"{rank}. {describe_deployment(each.deployment)}", "beside the first: " + ", ".join(each.gives_up))
        for rank, each in enumerate(ranked, 1)
        if each.gives_up
    )


def front_figure(found: DeploymentSearchResult) -> Figure:
    """The front by formula, and what was played."""
    return Figure(
        name="front",
        series=(
            _curve("Pareto front (by formula)", found.front, palette.INK, "lines+markers"),
            _curve("played by events", found.ranked, palette.GREEN, "markers"),
        ),
        height=420,
        legend="below",
        x=Axis(title="tokens/s of a user", unit="count", from_zero=True),
        y=Axis(title="tokens/s of a device", unit="count", from_zero=True),
    )


def _curve(name: str, found: Sequence[FoundDeployment], colour: str, mode: str) -> Curve:
    return Curve(
        name=name,
        mode="lines+markers" if mode == "lines+markers" else "markers",
        colour=colour,
        x=tuple(each.tokens_per_second_per_user for each in found),
        y=tuple(each.tokens_per_second_per_device for each in found),
        hovers=tuple(
            f"{describe_found(each)}\n{describe_load(each.load)}\n"
            f"first token {format_seconds(each.first_seconds)}, each {format_seconds(each.token_seconds)}"
            for each in found
        ),
    )
