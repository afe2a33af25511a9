"""What programs that serve do by themselves: the defaults of their schedulers, by version and device.

``[[serving.scheduler]]`` of a data file has a row for each version from which, and each memory of a device
from which something differs; the last row that fits counts. Tokens of a step stand under
``[[inference.steps]]`` where they have not changed since; a row that states its own is of an older version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Any, get_args

from perfcast.core.machine.hardware import Device
from perfcast.core.serving.scheduling import SchedulerPolicy, Scheduling
from perfcast.errors import CatalogError, InputError
from perfcast.figures import parse_figure, parse_table, parse_toml
from perfcast.frameworks.load import load_inference_profiles, profile_folder

Version = tuple[int, ...]
_NUMBERS = ("max_sequences", "max_step_tokens", "block_tokens")
_FLAGS = ("chunks_prompts", "schedules_ahead", "shares_steps", "reserves_prompts", "reuses_blocks")
_KEYS = ("since", "least_memory", "but_not", "policy", "source", *_NUMBERS, *_FLAGS)
#: server_args.py of SGLang, enable_dp_attention: schedule_conservativeness *= 0.3.
_CONSERVATIVENESS_OF_SHARED_STEPS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerDefaults:
    """What a scheduler takes where nothing is said.

    Attributes:
        since: First version that does so.
        least_memory_bytes, but_not: Of devices that it is of, as in ``StepTokens``.
        policy, max_sequences, max_step_tokens, chunks_prompts, block_tokens, schedules_ahead,
        reserves_prompts, reuses_blocks: As in ``core.serving.scheduling``.
        shares_steps: Whether attention data-parallel ranks share the tokens and sequences of a step (SGLang:
            chunked_prefill_size and max_running_requests over dp_size); each has all of them otherwise.
        source: Where this is written down.
    """

    since: Version
    least_memory_bytes: float
    but_not: str
    policy: SchedulerPolicy
    max_sequences: int
    max_step_tokens: int
    block_tokens: int
    chunks_prompts: bool
    schedules_ahead: bool
    shares_steps: bool
    reserves_prompts: bool
    reuses_blocks: bool
    source: str

    def scheduling(self, kv_tokens: int, data_parallel: int = 1) -> Scheduling:
        """Of one engine whose memory holds so many tokens, one of so many attention data-parallel ranks."""
        found = Scheduling(
            policy=self.policy,
            max_sequences=self.max_sequences,
            max_step_tokens=self.max_step_tokens,
            kv_tokens=kv_tokens,
            chunks_prompts=self.chunks_prompts,
            block_tokens=self.block_tokens,
            schedules_ahead=self.schedules_ahead,
            reserves_prompts=self.reserves_prompts,
            reuses_blocks=self.reuses_blocks,
        )
        if not self.shares_steps or data_parallel == 1:
            return found
        return replace(
            found,
            max_sequences=max(1, found.max_sequences // data_parallel),
            max_step_tokens=max(1, found.max_step_tokens // data_parallel),
            reserved_answers=found.reserved_answers * _CONSERVATIVENESS_OF_SHARED_STEPS,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingProfile:
    """A framework that serves.

    Attributes:
        name: Of it.
        newest: The version that is meant where none is named.
        schedulers: By version and memory, rising.
    """

    name: str
    newest: str
    schedulers: tuple[SchedulerDefaults, ...]

    def scheduler(self, device: Device, version: str | None = None) -> SchedulerDefaults:
        """What it takes on a device.

        Args:
            device: That it runs on.
            version: 'X.Y.Z', with anything behind; None: the newest.

        Raises:
            InputError: No version, or one older than all that are known.
        """
        wanted = parse_version(version or self.newest)
        found = [
            row
            for row in self.schedulers
            if row.since <= wanted
            and device.memory_bytes >= row.least_memory_bytes
            and not (row.but_not and row.but_not in device.name)
        ]
        if not found:
            oldest = ".".join(map(str, self.schedulers[0].since))
            raise InputError(f"{self.name} {version}: known since {oldest}")
        row = found[-1]
        if row.max_step_tokens:
            return row
        tokens = load_inference_profiles()[self.name].most_step_tokens(device)
        if tokens is None:
            raise CatalogError(f"{self.name}: how many tokens has a step?")
        return replace(row, max_step_tokens=tokens)


def parse_version(text: str) -> Version:
    """The numbers that a version begins with, at most three.

    >>> parse_version("0.5.8.post1"), parse_version("1.2.0rc6")
    ((0, 5, 8), (1, 2, 0))

    Raises:
        InputError: It begins with none.
    """
    numbers: list[int] = []
    for part in text.removeprefix("v").split(".")[:3]:
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    if not numbers:
        raise InputError(f"version {text!r}: give it as X.Y.Z")
    return tuple(numbers)


@cache
def load_serving_profiles() -> Mapping[str, ServingProfile]:
    """What is known of frameworks that serve, by name."""
    found = {}
    for path in sorted(profile_folder().glob("*.toml")):
        content = parse_toml(path)
        if "serving" in content:
            found[path.stem] = _parse_profile(path.stem, content)
    return MappingProxyType(found)


def _parse_profile(name: str, content: Mapping[str, Any]) -> ServingProfile:
    where = f"{name}.toml: [serving]"
    table, sources = parse_table(content, "serving", where), parse_table(content, "sources", where)
    rows = tuple(_parse_row(row, sources, f"{where} scheduler") for row in table.get("scheduler", ()))
    if not rows or not isinstance(table.get("newest"), str):
        raise CatalogError(f"{where}: a scheduler and the newest version that it is of")
    if list(rows) != sorted(rows, key=lambda row: (row.since, row.least_memory_bytes)):
        raise CatalogError(f"{where}: rows must stand by rising version and memory")
    return ServingProfile(name=name, newest=table["newest"], schedulers=rows)


def _parse_row(row: Mapping[str, Any], sources: Mapping[str, str], where: str) -> SchedulerDefaults:
    for key in sorted(row.keys() - set(_KEYS)):
        raise CatalogError(f"{where}: unknown key {key}")
    if row.get("policy") not in get_args(SchedulerPolicy):
        raise CatalogError(
            f"{where}: {row.get('policy')!r} is none of {', '.join(get_args(SchedulerPolicy))}"
        )
    if row.get("source") not in sources:
        raise CatalogError(f"{where}: source {row.get('source')!r} is not in the file's [sources]")
    for key in _FLAGS:
        if not isinstance(row.get(key, False), bool):
            raise CatalogError(f"{where}: {key} = {row[key]!r} is neither true nor false")

    def number(key: str) -> float:
        return parse_figure(row.get(key), sources, f"{where} {key}").si_value

    return SchedulerDefaults(
        since=parse_version(row["since"]),
        least_memory_bytes=number("least_memory"),
        but_not=row.get("but_not", ""),
        policy=row["policy"],
        max_sequences=int(number("max_sequences")),
        max_step_tokens=int(number("max_step_tokens")) if "max_step_tokens" in row else 0,
        block_tokens=int(number("block_tokens")),
        chunks_prompts=row.get("chunks_prompts", False),
        schedules_ahead=row.get("schedules_ahead", False),
        shares_steps=row.get("shares_steps", False),
        reserves_prompts=row.get("reserves_prompts", False),
        reuses_blocks=row.get("reuses_blocks", False),
        source=sources[row["source"]],
    )
