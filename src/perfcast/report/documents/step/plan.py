"""The forecast of a step under a plan over many devices."""

from __future__ import annotations

from perfcast.core.forecast.fit import first_said
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.forecast.plan import CAUSES, PlanForecast, RankTime, StragglerEffect
from perfcast.prediction.run.predict import RunForecast
from perfcast.report import palette
from perfcast.report.blocks import (
    amount_bars,
    name_shares,
    share_table,
    stacked_bars,
    step_card,
    throughput_card,
)
from perfcast.report.document import Block, Card, Column, Document, Fact, Note, Section, Table
from perfcast.report.documents.memory.plan import describe_plan, describe_training, need_card, stages_figure
from perfcast.report.documents.program import program_facts
from perfcast.report.documents.run import price_run, run_section
from perfcast.report.documents.step.pipeline import pipeline_figure, spread_evenly
from perfcast.report.figure import Figure
from perfcast.report.values import Value, percent
from perfcast.units import MICRO, MILLI, format_seconds

MAX_STAGES = 12
MAX_PATH = 8

CAUSE_WORDS = {
    "compute": "compute",
    "recompute": "computed again",
    "optimizer": "optimizer",
    "tensor": "tensor communication",
    "context": "context communication",
    "expert": "expert communication",
    "data": "data communication",
    "pipeline": "sends between stages",
    "offload": "copies to the host",
    "bubble": "pipeline bubble",
    "host": "host launches",
    "straggler": "slower ranks",
    "other": "other",
}
#: What a rank does itself, and what it waits for in sight.
BUSY = ("compute", "recompute", "optimizer")
EXPOSED = ("tensor", "context", "expert", "data", "pipeline", "offload")


def document_of(forecast: PlanForecast, run: RunForecast | None = None) -> Document:
    """The headline, where the time goes, the timeline, what would help, memory, the assumptions.

    Args:
        run: The whole run, where one was asked for.
    """
    blocks: list[Block] = [_causes(forecast), _ranks(forecast)]
    if forecast.time.spans:
        blocks.append(_timeline(forecast))
    if forecast.recommendations:
        blocks.append(_recommendations(forecast))
    if forecast.time.critical_path:
        blocks.append(_path(forecast))
    if forecast.memory is not None:
        blocks.append(_memory(forecast.memory))
    if run is not None:
        blocks.append(run_section(run))
    return Document(
        title=f"{forecast.model} on {forecast.num_devices} × {forecast.device} ({forecast.cluster})",
        verdict=first_said((forecast.fit,)),
        lead=describe_step(forecast),
        limits=_limits(forecast, run),
        cards=_cards(forecast),
        facts=_facts(forecast),
        blocks=tuple(blocks),
        assumptions=forecast.assumptions,
    )


def _limits(forecast: PlanForecast, run: RunForecast | None) -> str:
    causes = forecast.time.seconds_by_cause
    named = name_shares("Goes to", {CAUSE_WORDS[cause]: seconds for cause, seconds in causes.items()})
    return named if run is None else f"{named} · {price_run(run)}"


def describe_step(forecast: PlanForecast) -> str:
    """Mode, precision, batch and plan in one line."""
    what = f"{forecast.mode} · {forecast.dtype} · {_describe_batch(forecast)}"
    if forecast.training is not None:
        what += f" · {describe_training(forecast.training)}"
    if forecast.plan is None:
        return f"{what} · a parallel program of {forecast.num_devices} ranks"
    return f"{what} · {describe_plan(forecast.plan)}"


def _describe_batch(forecast: PlanForecast) -> str:
    """Sequences and their length, or samples."""
    length = f" × {forecast.sequence_length}" if forecast.sequence_length > 1 else ""
    return f"{forecast.num_sequences}{length} {_things(forecast)}"


def _things(forecast: PlanForecast) -> str:
    """What a step advances: tokens, or samples of a model without sequences."""
    return "tokens" if forecast.sequence_length > 1 else "samples"


def describe_stragglers(effect: StragglerEffect) -> str:
    """Mean and tail of the step in one line."""
    return (
        f"{format_seconds(effect.mean_seconds)} on average, {format_seconds(effect.p50_seconds)} median, "
        f"{format_seconds(effect.p95_seconds)} in 1 of 20, {format_seconds(effect.p99_seconds)} in 1 of 100 "
        f"({effect.distribution}; {effect.num_draws} draws)"
    )


def _cards(forecast: PlanForecast) -> tuple[Card, ...]:
    found = [
        step_card(forecast.step_seconds, forecast.step_seconds_low, forecast.step_seconds_high),
        throughput_card(
            forecast.tokens_per_second,
            forecast.tokens_per_second_per_device,
            "tokens/s" if forecast.sequence_length > 1 else "samples/s",
        ),
        Card(label="MFU", value=forecast.mfu, unit="share", detail=f"HFU {percent(forecast.hfu)}"),
    ]
    if forecast.memory is not None:
        found.append(need_card(forecast.memory, "Memory"))
    return (*found, Card(label="Parameters", value=forecast.parameter_count, unit="count"))


def _facts(forecast: PlanForecast) -> tuple[Fact, ...]:
    events = forecast.time.num_events
    is_simulated = forecast.method == "simulated"
    how = f"{events} simulated operations" if is_simulated else "closed form of the pipeline"
    found = [Fact("Priced by", f"{forecast.cost_model}; {how}")]
    if forecast.stragglers is not None:
        found.insert(0, Fact("Stragglers", describe_stragglers(forecast.stragglers)))
    return (*program_facts(forecast.program, forecast.defaults), *found)


def visible_causes(forecast: PlanForecast) -> list[str]:
    """What takes any time on any rank, less than a millionth of the step left out."""
    ranks = forecast.time.ranks
    least = forecast.step_seconds * MICRO
    return [cause for cause in CAUSES if any(r.seconds_by_cause.get(cause, 0.0) > least for r in ranks)]


def _causes(forecast: PlanForecast) -> Section:
    causes = forecast.time.seconds_by_cause
    table = share_table(
        "",
        "Cause",
        [(CAUSE_WORDS[cause], causes[cause]) for cause in visible_causes(forecast)],
        total=forecast.step_seconds,
    )
    return Section(title="Where the step goes (mean over all ranks)", blocks=(table,))


def _sorted_ranks(forecast: PlanForecast) -> list[RankTime]:
    return sorted(forecast.time.ranks, key=lambda rank: (rank.stage, rank.rank))


def _ranks(forecast: PlanForecast) -> Section:
    causes = visible_causes(forecast)
    columns = (
        Column("Rank"),
        Column("Stage"),
        Column("Equal ranks", short="Ranks"),
        *(Column(name, "s") for name in ("Busy", "Exposed")),
        *(Column(name, "s", only="terminal") for name in ("Bubble", "Host", "Other")),
        *(Column(CAUSE_WORDS[cause], "s", only="page") for cause in causes),
    )
    rows = tuple((*_rank_cells(rank), *_cause_cells(rank, causes)) for rank in _sorted_ranks(forecast))
    table = Table(columns=columns, rows=rows, things="ranks", most_rows=MAX_STAGES, pick="ends")
    return Section(title="Ranks that differ", blocks=(ranks_figure(forecast), table))


def _rank_cells(rank: RankTime) -> tuple[Value, ...]:
    """Own work, exposed communication, and the rest of the step (bubble, host, others)."""
    busy, exposed, waiting = busy_exposed_waiting(rank)
    bubble, host = (rank.seconds_by_cause.get(cause, 0.0) for cause in ("bubble", "host"))
    parts = (busy, exposed, bubble, host, waiting - bubble - host)
    return (rank.rank, rank.stage, rank.num_equal, *(visible(seconds) for seconds in parts))


def _cause_cells(rank: RankTime, causes: list[str]) -> tuple[Value, ...]:
    return tuple(visible(rank.seconds_by_cause.get(cause, 0.0)) for cause in causes)


def visible(seconds: float) -> float | None:
    """A time, or None below a nanosecond."""
    return seconds if seconds >= MICRO * MILLI else None


def busy_exposed_waiting(rank: RankTime) -> tuple[float, float, float]:
    """Own work, exposed communication, and the rest of the step (bubble, host, slower ranks), in seconds."""
    causes = rank.seconds_by_cause
    busy = sum(causes.get(cause, 0.0) for cause in BUSY)
    exposed = sum(causes.get(cause, 0.0) for cause in EXPOSED)
    return busy, exposed, sum(causes.values()) - busy - exposed


def ranks_figure(forecast: PlanForecast) -> Figure:
    """A bar for each differing rank, stacked by cause; they are equally long."""
    ranks = spread_evenly(_sorted_ranks(forecast))
    return stacked_bars(
        "ranks",
        [f"stage {rank.stage} · rank {rank.rank}" for rank in ranks],
        [
            (CAUSE_WORDS[cause], palette.CAUSES[cause], [r.seconds_by_cause.get(cause, 0.0) for r in ranks])
            for cause in visible_causes(forecast)
        ],
        totals=[forecast.step_seconds] * len(ranks),
    )


def _timeline(forecast: PlanForecast) -> Section:
    note = (
        "Of each rank, compute above and collectives below; gaps are waiting. Collectives inside layers are "
        "drawn for one micro-batch alone. Drag to look closer, double-click to see all; '--timeline FILE' "
        "writes every event for Perfetto."
    )
    return Section(title="Timeline", blocks=(pipeline_figure(forecast, CAUSE_WORDS), Note(note)), only="page")


def _recommendations(forecast: PlanForecast) -> Section:
    saved = [
        (recommendation.name, recommendation.saved_seconds) for recommendation in forecast.recommendations
    ]
    step = forecast.step_seconds
    note = "Each bound relaxed alone, everything else unchanged, and the step timed again."
    return Section(
        title="What would help",
        blocks=(
            amount_bars(
                "recommendations", saved, total=step, colours=palette.GREEN, title="saved of the step"
            ),
            share_table("", "If", saved, amount="Saves", total=step, folds=True),
            Note(note, only="page"),
        ),
    )


def _path(forecast: PlanForecast) -> Section:
    path, step = forecast.time.critical_path, forecast.step_seconds
    return Section(
        title="Critical path", blocks=(share_table("", "What", path, total=step, most_rows=MAX_PATH),)
    )


def _memory(memory: PlanMemory) -> Section:
    return Section(title="Memory of the stages at their peaks", blocks=(stages_figure(memory),), only="page")
