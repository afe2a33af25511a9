"""Options of a whole run: tokens, interruptions, checkpoints, power, price."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.pack import packed
from perfcast.errors import InputError, PlanError
from perfcast.units import GIGA, HOUR, MINUTE

if TYPE_CHECKING:
    from perfcast.prediction.request.run import CheckpointRule, RunRequest


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a run of so many tokens goes, as the options give it."""

    tokens: float | None = None
    mtbf: str | None = None
    restart: float | None = None
    checkpoint_interval: str | None = None
    checkpoint_bandwidth: float | None = None
    async_checkpoint: bool = False
    pue: float | None = None
    price: str | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """Options that were given, --tokens first."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return tuple(
            f"--{name.replace('_', '-')}"
            for name, value in values.items()
            if value is not None and value is not False
        )


run_options = packed(
    RunOptions,
    "run",
    click.option("--tokens", type=float, help="Of a whole run, such as 15e12: days, energy, dollars."),
    click.option("--mtbf", metavar="HOURS", help="Mean time between interruptions of one device, or 'none'."),
    click.option("--restart", type=float, metavar="MINUTES", help="After an interruption."),
    click.option(
        "--checkpoint-interval", metavar="MINUTES", help="Or 'daly' (default) or 'young': the best."
    ),
    click.option("--checkpoint-bandwidth", type=float, metavar="GB/S", help="To storage, of all devices."),
    click.option("--async-checkpoint", is_flag=True, help="Steps go on while one is written."),
    click.option("--pue", type=float, help="Power of the site over that of its servers."),
    click.option("--price", metavar="DOLLARS", help="Of a device-hour, or a FILE.toml of prices by device."),
)


def build_run_request(device: str, run: RunOptions) -> RunRequest | None:
    """What ``run_options`` ask for; None without --tokens.

    Args:
        device: Catalog name, by which a file of prices is read.

    Raises:
        InputError: Options of a run without --tokens, or values that no run can have.
    """
    from perfcast.prediction.request.run import RunRequest

    if run.tokens is None:
        if run.given:
            raise InputError(f"{', '.join(run.given)}: of a whole run; give its --tokens")
        return None
    rule, interval = _interval(run.checkpoint_interval)
    dollars, source = (None, "") if run.price is None else read_price(run.price, device)
    bandwidth = run.checkpoint_bandwidth
    return RunRequest(
        tokens=run.tokens,
        between_interruptions_seconds=_hours(run.mtbf),
        restart_seconds=None if run.restart is None else run.restart * MINUTE,
        checkpoint_interval_seconds=interval,
        checkpoint_rule=rule,
        checkpoint_bytes_per_second=None if bandwidth is None else bandwidth * GIGA,
        is_asynchronous=run.async_checkpoint,
        pue=run.pue,
        dollars_per_device_hour=dollars,
        price_source=source,
    )


def _interval(text: str | None) -> tuple[CheckpointRule, float | None]:
    """A rule, and seconds where a number of minutes is given."""
    from perfcast.prediction.request.run import CHECKPOINT_RULES

    usual = CHECKPOINT_RULES[0]
    if text is None:
        return usual, None
    named = next((rule for rule in CHECKPOINT_RULES if rule == text), None)
    return (named, None) if named else (usual, MINUTE * _number("--checkpoint-interval", text))


def read_price(text: str, device: str) -> tuple[float, str]:
    """Dollars of a device-hour and where they come from: a number, or a file with a table ``[prices]``.

    ::

        [prices]
        h100-sxm = { dollars = 2.5, source = "our contract" }

    Raises:
        InputError: Neither, or a file that says nothing of the device.
    """
    if not text.endswith(".toml"):
        return _number("--price", text), ""
    from perfcast.figures import parse_table, parse_toml

    prices = parse_table(parse_toml(Path(text)), "prices", text)
    if device not in prices:
        known = ", ".join(prices) or "none"
        raise InputError(f"{text}: no price of {device} under [prices]; it has {known}")
    row = prices[device]
    dollars = row.get("dollars") if isinstance(row, dict) else None
    if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not row.get("source"):
        raise InputError(f"{text}: the price of {device} has to state dollars and source")
    return float(dollars), f"{text}: {row['source']}"


def _hours(mtbf: str | None) -> float | None:
    if mtbf is None:
        return None
    return float("inf") if mtbf == "none" else HOUR * _number("--mtbf", mtbf)


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PlanError(f"{option} {text}: not a number") from None
