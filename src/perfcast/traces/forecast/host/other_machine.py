"""The host of another machine: its usual processor over that of the recorded one, each as unsure as it is.

A recording does not say which processor issued its kernels. Machines with a device usually have a certain
one (``cost.host.processors``), the same that forecasts of a program take; what is recorded is scaled by the
ratio, and the interval holds that either machine may have another. Processors that are named are surer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from perfcast.core.machine.hardware import Device
from perfcast.cost.host.processors import HostProcessor, resolve_processor
from perfcast.traces.forecast.request import TraceForecastRequest
from perfcast.traces.forecast.variant import Variant
from perfcast.traces.timeline.program import RankProgram


@dataclass(frozen=True)
class OtherHost:
    """The processor of the recorded machine and that of the wanted one."""

    recorded: HostProcessor
    wanted: HostProcessor

    @property
    def ratio(self) -> float:
        """Wanted over recorded time of the host."""
        return self.wanted.slowness / self.recorded.slowness

    @property
    def spread(self) -> float:
        """How far it may be from that, as a factor either way; 90 %.

        Two errors that are apart; of one processor that both are named to have, one.
        """
        one, other = math.log(self.recorded.spread), math.log(self.wanted.spread)
        is_same = self.recorded.name == self.wanted.name
        if is_same and not self.recorded.is_chosen and not self.wanted.is_chosen:
            return self.wanted.spread
        return math.exp(math.hypot(one, other))


def find_other_host(request: TraceForecastRequest) -> OtherHost | None:
    """The hosts of the recorded and the wanted machine; None where the machine or its overheads are known.

    Raises:
        UnknownNameError: No processor of a name.
    """
    before, after = request.before, request.after
    if request.profile is not None or before is None or after is None or before.device == after.device:
        return None
    return OtherHost(
        resolve_processor(request.recorded_host, before.device), resolve_processor(request.host, after.device)
    )


def with_other_host(variant: Variant, host: OtherHost) -> Variant:
    """The program beside the other machine's host."""
    return replace(
        variant,
        middle=_scaled(variant.middle, host.ratio),
        low=_scaled(variant.low, host.ratio / host.spread),
        high=_scaled(variant.high, host.ratio * host.spread),
    )


def with_unknown_rest(variant: Variant, device: Device) -> Variant:
    """Operators priced on another processor, beside what no price has of it: dispatch, Python, gaps.

    That stays as recorded; all of the step may be as many times faster or slower as a processor that nobody
    named.
    """
    return with_spread(variant, resolve_processor(None, device).spread)


def with_spread(variant: Variant, spread: float) -> Variant:
    """The program beside a host that may be so many times faster or slower."""
    return replace(variant, low=_scaled(variant.low, 1 / spread), high=_scaled(variant.high, spread))


def describe_other_host(host: OtherHost) -> str:
    """What is taken, and how to say better."""
    unknown = [
        option
        for option, processor in (("--recorded-host", host.recorded), ("--host", host.wanted))
        if processor.is_chosen
    ]
    better = f"; {' and '.join(unknown)} name it" if unknown else ""
    return (
        f"host times × {host.ratio:.3g}, {1 / host.spread:.2g} to {host.spread:.2g} times that: from "
        f"{_title(host.recorded)} to {_title(host.wanted)}{better}; --overheads takes measured ones"
    )


def _title(processor: HostProcessor) -> str:
    return f"{processor.title}{' (taken)' if processor.is_chosen else ''}"


def _scaled(program: RankProgram, factor: float) -> RankProgram:
    return program.with_piece_seconds([piece.seconds * factor for piece in program.pieces])
