"""A step under a plan for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfcast.core.forecast.plan import CAUSES, PlanForecast, RankTime, StragglerEffect
from perfcast.prediction.run.predict import RunForecast
from perfcast.report.plan_memory_text import describe_need, describe_plan
from perfcast.report.run_text import print_run
from perfcast.report.tables import (
    new_grid,
    new_table,
    percent,
    print_list,
    print_table,
    share,
    shares_table,
)
from perfcast.units import MICRO, MILLI, format_count, format_seconds

MAX_STAGES = 12
MAX_PATH = 8

CAUSE_WORDS = {
    "compute": "compute",
    "recompute": "computed again",
    "optimizer": "optimizer",
    "tensor": "tensor exchange",
    "context": "context exchange",
    "expert": "expert exchange",
    "data": "data exchange",
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


def print_plan_forecast(forecast: PlanForecast, console: Console, run: RunForecast | None = None) -> None:
    """The headline, where the time goes, the stages, what would help, the critical path, the assumptions.

    Args:
        run: The whole run, shown before the assumptions.
    """
    console.print(Text(describe_title(forecast), style="bold"))
    console.print(Text(describe_step(forecast)))
    console.print()
    console.print(_headline(forecast))
    for table in (
        _cause_table(forecast, console),
        _stage_table(forecast),
        _relief_table(forecast, console),
        _path_table(forecast, console),
    ):
        if table.row_count:
            print_table(console, table)
    if run is not None:
        print_run(run, console)
    console.print()
    print_list(console, (("·", note) for note in forecast.assumptions))


def describe_title(forecast: PlanForecast) -> str:
    """Model, devices and cluster in one line."""
    return f"{forecast.model} on {forecast.num_devices} × {forecast.device} ({forecast.cluster})"


def describe_step(forecast: PlanForecast) -> str:
    """Mode, precision, batch and plan in one line."""
    what = f"{forecast.mode} · {forecast.dtype} · {describe_batch(forecast)}"
    if forecast.training is not None:
        what += f" · {forecast.training.optimizer} · {forecast.training.framework}"
    if forecast.plan is None:
        return f"{what} · a parallel program of {forecast.num_devices} ranks"
    return f"{what} · {describe_plan(forecast.plan)}"


def describe_batch(forecast: PlanForecast) -> str:
    """Sequences and their length, or samples."""
    length = f" × {forecast.sequence_length}" if forecast.sequence_length > 1 else ""
    return f"{num_sequences(forecast)}{length} {token_word(forecast)}"


def token_word(forecast: PlanForecast) -> str:
    """What a step advances: tokens, or samples of a model without sequences."""
    return "tokens" if forecast.sequence_length > 1 else "samples"


def num_sequences(forecast: PlanForecast) -> int:
    """Of one step, over all devices."""
    if forecast.plan is not None:
        return forecast.plan.global_batch_size
    return forecast.num_tokens // (1 if forecast.mode == "decode" else forecast.sequence_length)


def describe_interval(forecast: PlanForecast) -> str:
    """The 90 % interval."""
    low, high = format_seconds(forecast.step_seconds_low), format_seconds(forecast.step_seconds_high)
    return f"{low} to {high} with 90 %"


def describe_stragglers(effect: StragglerEffect) -> str:
    """Mean and tail of the step in one line."""
    return (
        f"{format_seconds(effect.mean_seconds)} on average, {format_seconds(effect.p50_seconds)} median, "
        f"{format_seconds(effect.p95_seconds)} in 1 of 20, {format_seconds(effect.p99_seconds)} in 1 of 100 "
        f"({effect.distribution}; {effect.num_draws} draws)"
    )


def describe_method(forecast: PlanForecast) -> str:
    """How the time was found."""
    how = (
        f"{forecast.time.num_events} simulated operations"
        if forecast.method == "simulated"
        else "closed form of the pipeline"
    )
    return f"{forecast.cost_model}; {how}"


def visible_causes(forecast: PlanForecast) -> list[str]:
    """What takes any time on any rank, less than a millionth of the step left out."""
    ranks = forecast.time.ranks
    least = forecast.step_seconds * MICRO
    return [cause for cause in CAUSES if any(r.seconds_by_cause.get(cause, 0.0) > least for r in ranks)]


def busy_exposed_waiting(rank: RankTime) -> tuple[float, float, float]:
    """Own work, exchanges in sight, and the rest of the step (bubble, host, slower ranks), in seconds."""
    causes = rank.seconds_by_cause
    busy = sum(causes.get(cause, 0.0) for cause in BUSY)
    exposed = sum(causes.get(cause, 0.0) for cause in EXPOSED)
    return busy, exposed, sum(causes.values()) - busy - exposed


def _headline(forecast: PlanForecast) -> Table:
    grid = new_grid()
    step = f"{format_seconds(forecast.step_seconds)} ({describe_interval(forecast)})"
    grid.add_row("Step", Text(step, style="bold"))
    grid.add_row(
        "Throughput",
        f"{format_count(forecast.tokens_per_second)} {token_word(forecast)}/s, "
        f"{format_count(forecast.tokens_per_second_per_device)} of one device",
    )
    grid.add_row("MFU", f"{percent(forecast.mfu)} (HFU {percent(forecast.hfu)})")
    if forecast.memory is not None:
        need = describe_need(forecast.memory)
        grid.add_row("Memory", Text(need, style="" if forecast.memory.fits else "bold red"))
    if forecast.stragglers is not None:
        grid.add_row("Stragglers", describe_stragglers(forecast.stragglers))
    grid.add_row("Parameters", format_count(forecast.parameter_count))
    grid.add_row("Priced by", describe_method(forecast))
    return grid


def _cause_table(forecast: PlanForecast, console: Console) -> Table:
    table = shares_table("Where the step goes (mean over all ranks)", "Cause", "Time")
    causes = forecast.time.seconds_by_cause
    for cause in visible_causes(forecast):
        seconds = causes[cause]
        bar = share(seconds, forecast.step_seconds, console)
        table.add_row(CAUSE_WORDS[cause], format_seconds(seconds), *bar)
    return table


def _stage_table(forecast: PlanForecast) -> Table:
    table = new_table("Ranks that differ")
    table.add_column("Rank", justify="right")
    table.add_column("Stage", justify="right")
    for heading in ("Ranks", "Busy", "Exposed", "Bubble", "Host", "Other"):
        table.add_column(heading, justify="right", no_wrap=True)
    ranks = sorted(forecast.time.ranks, key=lambda rank: (rank.stage, rank.rank))
    for rank in _shortened(ranks):
        if rank is None:
            table.add_row("…")
            continue
        busy, exposed, waiting = busy_exposed_waiting(rank)
        bubble, host = (rank.seconds_by_cause.get(cause, 0.0) for cause in ("bubble", "host"))
        table.add_row(
            str(rank.rank), str(rank.stage), str(rank.num_equal),
            *(_time(seconds) for seconds in (busy, exposed, bubble, host, waiting - bubble - host)),
        )  # fmt: skip
    return table


def _shortened(ranks: list[RankTime]) -> Iterator[RankTime | None]:
    """All of a few; of many the first and the last, with None for those between."""
    if len(ranks) <= MAX_STAGES:
        yield from ranks
        return
    yield from ranks[: MAX_STAGES - 2]
    yield None
    yield ranks[-1]


def _relief_table(forecast: PlanForecast, console: Console) -> Table:
    table = shares_table("What would help", "If", "Saves")
    table.columns[0].no_wrap = False
    for relief in forecast.reliefs:
        saved = format_seconds(relief.saved_seconds)
        table.add_row(relief.name, saved, *share(relief.saved_seconds, forecast.step_seconds, console))
    return table


def _path_table(forecast: PlanForecast, console: Console) -> Table:
    table = shares_table("Critical path", "What", "Time")
    for label, seconds in forecast.time.critical_path[:MAX_PATH]:
        table.add_row(Text(label), format_seconds(seconds), *share(seconds, forecast.step_seconds, console))
    return table


def _time(seconds: float) -> str:
    return format_seconds(seconds) if seconds >= MICRO * MILLI else "–"
