"""Requests as they come, and engines that answer them, as ``serving`` and its search say them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from perfcast.core.serving.lengths import Lengths, parse_lengths
from perfcast.core.serving.load import OpenLoad
from perfcast.core.serving.scheduling import Speculation
from perfcast.errors import InputError
from perfcast.ranges import (
    ANY_NUMBER,
    BURSTINESS,
    CACHED,
    CLIENTS,
    EXPERT_LOAD,
    FRACTION,
    REQUEST_RATE,
    excerpt,
    read_number,
    read_whole,
)
from perfcast.verbs.question import Question, between, option_of, usually, within
from perfcast.verbs.shared.values import check_fraction, parse_time

if TYPE_CHECKING:
    from perfcast.prediction.request.serving import EngineOptions


@dataclass(frozen=True, kw_only=True)
class RequestsQuestion(Question):
    """Requests: how long they are, and how they come.

    Attributes:
        input_length: Of prompts: 8192, or SHAPE:MEAN:SPREAD with uniform, normal or lognormal, as
            uniform:1024:0.2.
        output_length: Of answers, likewise.
        prefix_hit_share: Of a prompt's tokens, those that are cached.
        concurrency: Clients that each wait for their answer, of all replicas.
        request_rate: Requests per second, whatever becomes of them.
        burstiness: Of --request-rate: 1 (default) is Poisson, 0 even, above 1 bursts.
    """

    input_length: str | float | None = None
    output_length: str | float | None = None
    prefix_hit_share: float | None = field(default=None, metadata=usually(0.0, within=CACHED))
    concurrency: int | None = field(default=None, metadata=within(CLIENTS))
    request_rate: float | None = field(default=None, metadata=within(REQUEST_RATE))
    burstiness: float | None = field(default=None, metadata=within(BURSTINESS))

    def lengths(self, name: str) -> Lengths | None:
        """Of ``input_length`` or ``output_length``; None where nothing is said.

        Raises:
            InputError: Something else than lengths.
        """
        text = getattr(self, name)
        return None if text is None else parse_lengths(str(text), option_of(name))

    def open_load(self, rate: float) -> OpenLoad:
        """Requests at a rate, as unevenly as is said."""
        return OpenLoad(rate, 1.0 if self.burstiness is None else self.burstiness)


@dataclass(frozen=True, kw_only=True)
class EngineQuestion(Question):
    """What of an engine is said where several are meant too.

    Attributes:
        framework_version: Default: the newest that is known.
        memory_fraction: Of the device's memory: gpu_memory_utilization of vllm, mem_fraction_static of
            sglang, free_gpu_memory_fraction of trtllm; default: the framework's.
        speculate: Such as 3:0.7.
        expert_load: The busiest rank's over the mean.
        rank_wait_steps: Of attention data-parallel ranks: prompts wait so long for one another (trtllm).
        polls_every_steps: New requests are fetched (sglang: --scheduler-recv-interval).
        host_seconds: Of a step, where measured: 2ms.
    """

    framework_version: str | None = None
    memory_fraction: float | None = field(default=None, metadata=within(FRACTION))
    speculate: str | None = None
    expert_load: float | None = field(default=None, metadata=usually(1.0, within=EXPERT_LOAD))
    rank_wait_steps: int | None = field(default=None, metadata=between(0, 1_000_000, "steps of an engine"))
    polls_every_steps: int | None = field(default=None, metadata=between(1, 1_000_000, "steps of an engine"))
    host_seconds: str | float | None = None

    def engine_options(self, framework: str | None, memory_fraction: float | None = None) -> EngineOptions:
        """As the request of a deployment has them.

        Args:
            memory_fraction: Where none is said.

        Raises:
            InputError: Texts that say no such thing; the message names the option.
        """
        from perfcast.prediction.request.serving import EngineOptions

        return EngineOptions(
            framework=framework,
            version=self.framework_version,
            memory_fraction=check_fraction("--memory-fraction", self.memory_fraction) or memory_fraction,
            host_seconds=parse_time("--host-seconds", self.host_seconds),
            speculation=read_speculation("--speculate", self.speculate),
            expert_load=self.number("expert_load"),
            rank_wait_steps=self.rank_wait_steps,
            polls_every_steps=self.polls_every_steps,
        )


def read_speculation(option: str, text: str | None) -> Speculation | None:
    """``3:0.7``: tokens drafted in each step, and the probability that one is kept.

    Raises:
        InputError: Something else; names the option.
    """
    if text is None:
        return None
    drafted, colon, acceptance = text.partition(":")
    try:
        if not colon:
            raise InputError
        tokens, kept = read_whole("", drafted, ANY_NUMBER), read_number("", acceptance, ANY_NUMBER)
    except InputError:
        raise InputError(f"{option} {excerpt(text)}: DRAFTED:ACCEPTANCE, such as 3:0.7") from None
    return Speculation(tokens, kept)
