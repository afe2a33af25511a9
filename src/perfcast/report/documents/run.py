"""A whole run: days, device-hours, energy, dollars, and where the time goes."""

from __future__ import annotations

from perfcast.prediction.run.predict import RunForecast
from perfcast.report import palette
from perfcast.report.blocks import share_table, stacked_bars
from perfcast.report.document import Card, Fact, Items, Section
from perfcast.units import DAY, HOUR, format_bytes, format_count, format_duration

_COLOURS = (palette.BLUE, palette.GREY, palette.ORANGE, palette.RED)


def run_section(run: RunForecast) -> Section:
    """Headline figures, where the time goes, assumptions."""
    parts = run_parts(run)
    bars = stacked_bars(
        "run",
        [""],
        [(name, colour, [seconds]) for (name, seconds), colour in zip(parts, _COLOURS, strict=True)],
        unit="duration",
        totals=[run.seconds],
    )
    table = share_table("Where the time of the run goes", "Part", parts, unit="duration", total=run.seconds)
    return Section(
        title="The whole run",
        lead=describe_run(run),
        cards=_cards(run),
        facts=_facts(run),
        blocks=(bars, table, Items(tuple(("·", note) for note in run.assumptions))),
    )


def describe_run(run: RunForecast) -> str:
    """One line: what is run."""
    return f"{format_count(run.tokens)} tokens in {run.num_steps:,} steps on {run.num_devices:,} devices"


def price_run(run: RunForecast) -> str:
    """What it takes, in a few words: '344 days, $1.32 M'."""
    cost = "" if run.dollars is None else f", ${format_count(run.dollars)}"
    return f"whole run {format_duration(run.seconds)}{cost}"


def run_parts(run: RunForecast) -> list[tuple[str, float]]:
    """Parts of the time; they add up to it."""
    return [
        ("steps that count", run.productive_seconds),
        ("waiting for checkpoints", run.checkpoint_seconds),
        ("work done again", run.lost_seconds),
        ("restarts", run.restart_seconds),
    ]


def _cards(run: RunForecast) -> tuple[Card, ...]:
    found = [
        Card(label="Time", value=run.seconds, unit="duration", low=run.seconds_low, high=run.seconds_high),
        Card(label="Device-hours", value=f"{run.device_seconds / HOUR:,.0f}"),
        Card(label="Goodput", value=run.goodput, unit="share", detail="of the time is steps that count"),
    ]
    if run.energy_joules is not None and run.device_watts is not None:
        watts = f"of the site; {run.device_watts:,.0f} W a device with its server, while steps run"
        found.append(Card(label="Energy", value=run.energy_joules / HOUR, unit="Wh", detail=watts))
    if run.dollars is not None:
        found.append(Card(label="Cost", value=f"{run.dollars:,.0f} dollars"))
    return tuple(found)


def _facts(run: RunForecast) -> tuple[Fact, ...]:
    found = [
        Fact("Interruptions", describe_interruptions(run)),
        Fact("Checkpoints", describe_checkpoints(run)),
    ]
    if run.energy_joules is None or run.device_watts is None:
        found.append(Fact("Energy", "no rated power of the device is published"))
    if run.fits is False:
        reason = "not priced: a step does not fit, so these devices cannot be bought for it"
        found.append(Fact("Cost", reason, severity="alarm"))
    elif run.dollars is None:
        found.append(Fact("Cost", "no price given (--price)"))
    return tuple(found)


def describe_interruptions(run: RunForecast) -> str:
    """How many are expected, how far apart."""
    if not run.num_interruptions:
        return "none"
    each = format_duration(run.between_interruptions_seconds)
    return f"{run.num_interruptions:,.1f} expected, one in {each}"


def describe_checkpoints(run: RunForecast) -> str:
    """Size, interval and time of one."""
    saved = run.checkpoints
    written = f"written in {format_duration(saved.write_seconds)}"
    if saved.is_asynchronous:
        written += f" beside the steps, which wait {format_duration(saved.stall_seconds)}"
    every = format_duration(saved.interval_seconds)
    if saved.interval_seconds > DAY:
        every += f" ({saved.count:,.0f} in all)"
    return f"{format_bytes(saved.num_bytes)} every {every}, {written}"
