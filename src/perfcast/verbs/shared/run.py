"""A whole run, as questions say it: tokens, interruptions, checkpoints, power, price."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from perfcast.errors import InputError, PlanError
from perfcast.ranges import DOLLARS, GIGABYTES_PER_SECOND, TOKENS_OF_RUN, Range, read_number
from perfcast.units import GIGA, HOUR, MINUTE, TERA
from perfcast.verbs.question import FILE, Question, amount, between, within

if TYPE_CHECKING:
    from perfcast.prediction.request.run import CheckpointRule, RunRequest

#: Of checkpoints and of interruptions.
MINUTES = Range(0, GIGA, "minutes, or 'daly' or 'young'", is_above=True)
HOURS = Range(0, TERA, "hours, or 'none'", is_above=True)
#: Fields of a run, --tokens first.
RUN_FIELDS = (
    "tokens",
    "mtbf",
    "restart",
    "checkpoint_interval",
    "checkpoint_bandwidth",
    "async_checkpoint",
    "pue",
    "price",
)


@dataclass(frozen=True, kw_only=True)
class RunQuestion(Question):
    """How a run of so many tokens goes.

    Attributes:
        tokens: Of a whole run, such as 15T or 15e12: days, energy, dollars.
        mtbf: Mean time between interruptions of one device, in hours, or 'none'.
        restart: Minutes after an interruption.
        checkpoint_interval: Minutes, or 'daly' (default) or 'young': the best.
        checkpoint_bandwidth: GB/s to storage, of all devices.
        async_checkpoint: Steps go on while one is written.
        pue: Power of the site over that of its servers.
        price: Dollars of a device-hour, or a FILE.toml of prices by device.
    """

    tokens: float | None = field(default=None, metadata=amount(TOKENS_OF_RUN))
    mtbf: str | float | None = None
    restart: float | None = field(default=None, metadata=between(0, GIGA, "minutes"))
    checkpoint_interval: str | float | None = None
    checkpoint_bandwidth: float | None = field(default=None, metadata=within(GIGABYTES_PER_SECOND))
    async_checkpoint: bool = False
    pue: float | None = field(default=None, metadata=between(1, 100, "a site draws no less than its servers"))
    price: str | float | None = field(default=None, metadata=FILE)

    @property
    def of_run(self) -> tuple[str, ...]:
        """Options of a run that were given, --tokens first."""
        return self.said(RUN_FIELDS)

    def check_run(self) -> None:
        """Raise where a number of the run is none, before anything is forecast.

        Raises:
            InputError: Names the option.
        """
        _interval(self.checkpoint_interval)
        _hours(self.mtbf)
        if self.price is not None and not str(self.price).endswith(".toml"):
            read_price(str(self.price), "")


def run_request_of(device: str, run: RunQuestion) -> RunRequest | None:
    """What is asked of the run; None without --tokens.

    Args:
        device: Catalog name, by which a file of prices is read.

    Raises:
        InputError: Options of a run without --tokens, or values that no run can have.
    """
    from perfcast.prediction.request.run import RunRequest

    if run.tokens is None:
        if run.of_run:
            raise InputError(f"{', '.join(run.of_run)}: of a whole run; give its --tokens")
        return None
    rule, interval = _interval(run.checkpoint_interval)
    dollars, source = (None, "") if run.price is None else read_price(str(run.price), device)
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


def _interval(said: str | float | None) -> tuple[CheckpointRule, float | None]:
    """A rule, and seconds where a number of minutes is given."""
    from perfcast.prediction.request.run import CHECKPOINT_RULES

    usual = CHECKPOINT_RULES[0]
    if said is None:
        return usual, None
    text = str(said)
    named = next((rule for rule in CHECKPOINT_RULES if rule == text), None)
    return (named, None) if named else (usual, MINUTE * _number("--checkpoint-interval", text, MINUTES))


def read_price(text: str, device: str) -> tuple[float, str]:
    """Dollars of a device-hour and where they come from: a number, or a file with a table ``[prices]``.

    ::

        [prices]
        h100-sxm = { dollars = 2.5, source = "our contract" }

    Raises:
        InputError: Neither, or a file that says nothing of the device.
    """
    if not text.endswith(".toml"):
        return _number("--price", text, DOLLARS), ""
    from perfcast.figures import parse_table, parse_toml

    prices = parse_table(parse_toml(Path(text)), "prices", text)
    if device not in prices:
        known = ", ".join(prices) or "none"
        raise InputError(f"{text}: no price of {device} under [prices]; it has {known}")
    row = prices[device]
    dollars = row.get("dollars") if isinstance(row, dict) else None
    if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not row.get("source"):
        raise InputError(f"{text}: the price of {device} has to state dollars and source")
    DOLLARS.check(f"{text}: {device}: dollars", dollars)
    return float(dollars), f"{text}: {row['source']}"


def _hours(mtbf: str | float | None) -> float | None:
    if mtbf is None:
        return None
    return float("inf") if mtbf == "none" else HOUR * _number("--mtbf", str(mtbf), HOURS)


def _number(option: str, text: str, allowed: Range) -> float:
    return read_number(option, text, allowed, PlanError)
