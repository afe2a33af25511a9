"""Options that say what of a model trains, for every verb that trains."""

from __future__ import annotations

from dataclasses import dataclass

import click

from perfcast.core.mode import Mode
from perfcast.core.tuning.text import parse_tuning
from perfcast.core.tuning.trained import Tuning

#: In the order of ``TuningOptions``.
TUNING_OPTIONS = (
    click.option(
        "--lora",
        metavar="ITEMS",
        help="Train low-rank adapters alone: rank=16,targets=all-linear (attention, mlp, q+v …); dropout, "
        "a2a=1.",
    ),
    click.option("--qlora", metavar="ITEMS", help="The same, the model's own matrices in four bits (NF4)."),
    click.option(
        "--freeze",
        metavar="PARTS",
        help="What stays as it is: embedding, attention, mlp, experts, router, norms, head, layers:0-15.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class TuningOptions:
    """What trains, as the options give it."""

    lora: str | None = None
    qlora: str | None = None
    freeze: str | None = None

    def tuning(self, mode: Mode | None = None) -> Tuning:
        """What trains.

        Args:
            mode: Of the step; None: it trains.

        Raises:
            InputError: Values that no training can have, options that contradict.
            UsageError: In inference.
        """
        given = {"--lora": self.lora, "--qlora": self.qlora, "--freeze": self.freeze}
        named = [option for option, text in given.items() if text is not None]
        if named and mode not in (None, "train"):
            raise click.UsageError(f"{', '.join(named)}: of a training; --mode {mode} has none")
        return parse_tuning(self.lora, self.qlora, self.freeze)
