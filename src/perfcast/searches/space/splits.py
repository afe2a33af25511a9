"""How the layers of a model may be dealt out to stages: evenly, or with fewer where the ends of it stand.

The last stage has the head beside its layers, and the first stage keeps the activations of the most
micro-batches. Where that makes an end the slowest or the fullest stage, layers are dealt out as if the ends
were layers (Megatron-LM: --account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split,
--decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import split_evenly
from perfcast.core.plans.table import Split
from perfcast.core.plans.text import BALANCED, EVEN, STAGE_WORDS, PlanValue
from perfcast.errors import PlanError
from perfcast.workload.blocks.step.flops import flops_per_sequence

#: Of the slowest stage's work: less is no gain.
_LEAST_GAIN = 1e-9


@dataclass(frozen=True, slots=True)
class _Quality:
    """Smaller is better, the slowest stage's work first.

    Attributes:
        slowest: Work of the stage that has most, in layers.
        num_first: Layers of the first stage.
    """

    slowest: float
    num_first: int

    def beats(self, other: _Quality) -> bool:
        """Whether it is faster, or as fast with a lighter first stage."""
        if abs(self.slowest - other.slowest) > _LEAST_GAIN * other.slowest:
            return self.slowest < other.slowest
        return self.num_first < other.num_first


@lru_cache(maxsize=4096)
def balanced_split(
    model: Transformer, sequence_length: int, num_stages: int, num_chunks: int
) -> Split | None:
    """Layers of each part, fewer at the ends; None where that is no better than an even split.

    With several chunks a rank all parts but the ends are equal. Where stages are even and chunks would not
    be, there is none.
    """
    num_parts = num_stages * num_chunks
    if num_stages == 1 or model.num_layers < num_parts:
        return None
    layers, head = model.num_layers, head_layers(model, sequence_length)
    best, found = None, None
    if num_chunks == 1 or layers % num_parts == 0:
        best = _quality(split_evenly(layers, num_parts), num_stages, head)
    elif layers % num_stages == 0:
        return None
    for split in _candidates(layers, num_parts, head, is_even=num_chunks > 1):
        quality = _quality(split, num_stages, head)
        if best is None or quality.beats(best):
            best, found = quality, split
    return found


def _candidates(num_layers: int, num_parts: int, head: float, *, is_even: bool) -> Iterator[Split]:
    """As if the embedding were no or one layer, and the head none up to what it weighs."""
    for last in range(math.ceil(head) + 2):
        for first in (0, 1):
            whole = num_layers + first + last
            if (is_even and whole % num_parts) or not first + last:
                continue
            parts = list(split_evenly(whole, num_parts))
            parts[0] -= first
            parts[-1] -= last
            if min(parts) >= 1:
                yield tuple(parts)


def _quality(split: Split, num_stages: int, head: float) -> _Quality:
    work = [float(sum(split[stage::num_stages])) for stage in range(num_stages)]
    work[-1] += head
    return _Quality(max(work), sum(split[::num_stages]))


def head_layers(model: Transformer, sequence_length: int) -> float:
    """What the head, and layers that predict further, weigh against a mean layer; in its products."""
    extra = model.num_prediction_layers
    table = model.vocab_size * (model.embedding_size or model.hidden_size)
    ends = 6 * sequence_length * table * (1 + extra)
    layer = (flops_per_sequence(model, sequence_length) - ends) / (model.num_layers + extra)
    return ends / layer + extra


def splits_of_parts(
    model: Transformer, sequence_length: int, kind: PlanValue, num_stages: int, num_chunks: int
) -> Split | None:
    """Layers of each part by a word of ``core.plans.text.STAGE_WORDS``, or stated; () is the framework's own.

    None: There is no such way, or it is the framework's own.
    """
    parts = num_stages * num_chunks
    if kind == EVEN:
        return () if num_chunks == 1 or model.num_layers % parts == 0 else None
    if kind == BALANCED:
        return balanced_split(model, sequence_length, num_stages, num_chunks)
    if not isinstance(kind, tuple):
        raise PlanError(f"stages={kind}: layers of each stage, or one of {', '.join(STAGE_WORDS)}")
    layers = tuple(int(part) for part in kind)
    return layers if len(layers) in (num_stages, parts) and sum(layers) == model.num_layers else None
