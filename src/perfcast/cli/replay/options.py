"""Options of ``perfcast replay``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from perfcast.cli.options.pack import Command, packed
from perfcast.cli.options.steps import STEP_RANGE
from perfcast.cli.trace.options import bytes_of, limit_option
from perfcast.core.embedding.lookup import NUM_REUSE_BINS

if TYPE_CHECKING:
    from perfcast.measure.collectives.plan import Backend
    from perfcast.replays.judge.host_gaps import HostGaps


def _batches(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    """'FROM:TO'."""
    match = re.fullmatch(r"([1-9]\d{0,8}):([1-9]\d{0,8})", value or "")
    if value is not None and match is None:
        raise click.BadParameter(f"'{value}': the recorded and the wanted batch size, such as 32:64")
    return (int(match[1]), int(match[2])) if match else None


def _patterns(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Patterns of operators; commas part several."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def _shares(_: click.Context, __: click.Parameter, value: str) -> tuple[float, ...]:
    """'5,2,1' as parts of a whole."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    if len(words) > NUM_REUSE_BINS or not all(re.fullmatch(r"\d{1,9}(\.\d{1,9})?", word) for word in words):
        raise click.BadParameter(f"'{value}': up to {NUM_REUSE_BINS} numbers with commas between, as 5,2,1")
    total = sum(map(float, words))
    if words and not total:
        raise click.BadParameter("the shares are all 0")
    missing = (0.0,) * (NUM_REUSE_BINS - len(words))
    return (*(float(word) / total for word in words), *missing) if words else ()


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """What is replayed and how, as the options give it."""

    traces: tuple[str, ...]
    timeline: str | None
    steps: tuple[int, int] | None
    subtree: str
    only: Literal["compute", "communication"] | None
    allow: tuple[str, ...]
    skip: tuple[str, ...]
    batch: tuple[int, int] | None
    values: str | None
    reuse: tuple[float, ...]
    module: str
    max_bytes: int
    max_tensor_bytes: int
    device: str | None
    repeat: int | None
    warm_up: int
    host_gaps: HostGaps
    prepare: Literal["auto", "ahead", "lazily"]
    threads: int
    num_ranks: int | None
    backend: Backend
    blocking: bool
    world_size: int | None
    rebalance: bool
    emulate: str | None
    profile_path: str | None
    generate_folder: str | None
    anonymise: bool

    def check(self) -> None:
        """See that these go together.

        Raises:
            UsageError: They do not.
        """
        if self.repeat == 0 and not self.generate_folder:
            raise click.UsageError("--repeat 0 measures nothing; it goes with --generate")
        if self.values and not Path(self.values).is_dir():
            raise click.UsageError(f"--values: '{self.values}' is no folder")
        if self.timeline and len(self.traces) > 1:
            raise click.UsageError("--timeline is of one TRACE, not of several")


def _selection() -> tuple[Callable[[Command], Command], ...]:
    option = click.option
    return (
        click.argument("traces", nargs=-1, required=True, metavar="TRACE..."),
        option("--timeline", metavar="FILE", help="The profiler's timeline of the same run."),
        option("--steps", type=STEP_RANGE, help="Places of marked steps, from 0; default: all."),
        option(
            "--subtree", "--module-path", default="", metavar="NAME",
            help="Only what ran under labels that hold NAME, and the backward of it.",
        ),
        option("--only", type=click.Choice(["compute", "communication"]), help="Default: both."),
        option("--allow", multiple=True, callback=_patterns, metavar="OPS", help="Only these: 'aten::*mm'."),
        option("--skip", multiple=True, callback=_patterns, metavar="OPS", help="Not these."),
        option(
            "--batch-size", "--batch", "batch",
            callback=_batches, metavar="FROM:TO", help="Play another batch size.",
        ),
        option(
            "--values", metavar="DIR",
            help="Recorded tensors (nid_*_tid_*.dat); default: NAME_resources beside TRACE, if there.",
        ),
        option(
            "--reuse", callback=_shares, default="", metavar="SHARES",
            help="Of the rows that embeddings look up: shares looked up 1, 2, 3-4, 5-8, … times, as 5,2,1.",
        ),
        option("--module", default="", metavar="FILE.py", help="Of yours: registers custom operators."),
        limit_option,
        option(
            "--max-tensor-bytes", callback=bytes_of, default="16GiB", show_default=True, metavar="SIZE",
            help="Largest tensor that a trace may ask for.",
        ),
    )  # fmt: skip


def _playing() -> tuple[Callable[[Command], Command], ...]:
    option = click.option
    return (
        option("--device", metavar="NAME", help="'cpu' or 'cuda:0'; default: where it was recorded."),
        option(
            "--repeat", type=click.IntRange(0), metavar="N",
            help="Measured repetitions; default: 30, fewer where they take over a minute; 0 "
            "with --generate only generates.",
        ),
        option("--warm-up", type=click.IntRange(0), default=5, show_default=True, help="Before those."),
        option(
            "--host-gaps", is_flag=False, flag_value="scaled", default="off", show_default=True,
            type=click.Choice(["off", "recorded", "scaled"]),
            help="Keep the host busy between calls: as long as recorded, or in proportion to the calls.",
        ),
        option(
            "--prepare", type=click.Choice(["auto", "ahead", "lazily"]), default="auto", show_default=True,
            help="Given tensors: all ahead, or each when first needed and only until its last use.",
        ),
        option("--threads", type=click.IntRange(0), default=0, help="Of operators; default: PyTorch's."),
    )  # fmt: skip


def _ranks() -> tuple[Callable[[Command], Command], ...]:
    option = click.option
    return (
        option(
            "--ranks",
            "num_ranks",
            type=click.IntRange(1),
            help="Processes here; default: one a trace.",
        ),
        option("--backend", type=click.Choice(["gloo", "nccl"]), default="gloo", show_default=True),
        option("--blocking", is_flag=True, help="Wait for every collective at once."),
        option("--world-size", type=click.IntRange(1), help="Recompute splits and sizes for so many ranks."),
        option("--rebalance", is_flag=True, help="All ranks send the same in all-to-alls."),
        option("--emulate", metavar="[CLUSTER]:RANKS", help="Ranks that are not there only take their time."),
    )


def _outputs() -> tuple[Callable[[Command], Command], ...]:
    option = click.option
    return (
        option("--profile", "profile_path", metavar="FILE", help="Timeline of the replay (JSON)."),
        option("--generate", "generate_folder", metavar="DIR", help="A program that needs PyTorch only."),
        option("--anonymise", is_flag=True, help="The generated program's names hashed."),
    )


#: TRACE and everything that says how it is replayed.
replay_options = packed(ReplayOptions, "options", *_selection(), *_playing(), *_ranks(), *_outputs())
