"""Launch recipes of deployments whose table states no workers and no drafts.

The measured points of DeepSeek-R1 in two pools were launched from published recipes, which state for each
concurrency how many workers read and write, whether attention is data-parallel, and how many tokens are
drafted; the table of measurements leaves that out. A line is matched by what it does state.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One deployment, and the load it was made for.

    Attributes:
        prefill_devices, decode_devices: Of one worker.
        prefill_attention_dp, decode_attention_dp: Ranks with requests of their own; else attention is cut.
        drafted: Tokens ahead; 0: none.
        since: Date of its publication.
        step_tokens: Of a rank that reads; 0: not stated, as the next two.
        sequences: Of a rank that writes.
        memory_fraction: That it takes.
    """

    device: str
    framework: str
    precision: str
    isl: int
    osl: int
    concurrency: int
    prefill_workers: int
    prefill_devices: int
    prefill_attention_dp: int
    prefill_ep: int
    decode_workers: int
    decode_devices: int
    decode_attention_dp: int
    decode_ep: int
    drafted: int
    since: str
    step_tokens: int = 0
    sequences: int = 0
    memory_fraction: float = 0.0

    @property
    def num_devices(self) -> int:
        """Of all workers."""
        return self.prefill_workers * self.prefill_devices + self.decode_workers * self.decode_devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What a line states of its deployment; None where it does not.

    Attributes:
        prefill_devices, decode_devices: Of one worker; or ``total_devices`` of all.
        date: Of the measurement, '' where none is stated.
    """

    device: str
    framework: str
    precision: str
    isl: int
    osl: int
    concurrency: int
    prefill_workers: int | None = None
    prefill_devices: int | None = None
    decode_workers: int | None = None
    decode_devices: int | None = None
    decode_attention_dp: int | None = None
    total_devices: int | None = None
    date: str = ""


def match_recipes(stated: Stated) -> tuple[Recipe, ...]:
    """The recipes that fit a line best, all that fit equally well; none of another device, program or length.

    First the load (the nearest in logarithms), then what is stated of workers; a recipe that was published
    after the measurement comes last, and is no recipe of it where it drafts: drafts came later than the rest.
    """
    known = [
        recipe
        for recipe in load_recipes()
        if (recipe.device, recipe.framework, recipe.precision, recipe.isl, recipe.osl)
        == (stated.device, stated.framework, stated.precision, stated.isl, stated.osl)
        and not (recipe.drafted and _is_later(recipe, stated))
    ]
    if not known:
        return ()
    best = min(_distance(recipe, stated) for recipe in known)
    return tuple(recipe for recipe in known if _distance(recipe, stated) <= best + 1e-9)


def _distance(recipe: Recipe, stated: Stated) -> float:
    """How far a recipe is from a line: mismatches, then the load's ratio, then whether it was there."""
    pairs = (
        (stated.prefill_workers, recipe.prefill_workers),
        (stated.decode_workers, recipe.decode_workers),
        (stated.prefill_devices, recipe.prefill_devices),
        (stated.decode_devices, recipe.decode_devices),
        (stated.decode_attention_dp, recipe.decode_attention_dp),
        (stated.total_devices, recipe.num_devices),
    )
    wrong = sum(said is not None and said != has for said, has in pairs)
    ratio = abs(math.log2(recipe.concurrency / stated.concurrency))
    return 1.5 * wrong + ratio + 0.01 * _is_later(recipe, stated)


def _is_later(recipe: Recipe, stated: Stated) -> bool:
    """Whether it was published after the measurement."""
    return bool(stated.date) and recipe.since > stated.date


@cache
def load_recipes() -> Sequence[Recipe]:
    """All recipes."""
    text = (resources.files(__package__) / "recipes.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))
    read = {each.name: {"int": int, "float": float}.get(str(each.type), str) for each in fields(Recipe)}
    return tuple(Recipe(**{name: read[name](cell) for name, cell in row.items()}) for row in rows)
