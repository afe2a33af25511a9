"""Layers of stages where the ends of the model weigh."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import split_evenly
from perfcast.core.plans.text import PlanValue
from perfcast.searches.space.splits import balanced_split, head_layers, splits_of_parts

#: 126 layers of Llama 3 405B's sizes; its head is a third of a layer.
LARGE = Transformer(
    num_layers=126, hidden_size=16384, num_attention_heads=128, num_kv_heads=8, head_size=128,
    ffn_hidden_size=53248, vocab_size=128256, is_gated=True, norm="rmsnorm", has_linear_bias=False,
)  # fmt: skip
#: 32 layers of Llama 3 8B's sizes; its head is 2.3 layers.
WIDE_HEAD = replace(
    LARGE, num_layers=32, hidden_size=4096, num_attention_heads=32, ffn_hidden_size=14336,
)  # fmt: skip


def slowest(split: tuple[int, ...], num_stages: int, head: float) -> float:
    work = [float(sum(split[stage::num_stages])) for stage in range(num_stages)]
    return max(*work[:-1], work[-1] + head)


def test_126_layers_on_16_stages_have_one_fewer_at_both_ends():
    """As Llama 3 405B was trained (Llama Team: The Llama 3 Herd of Models, 2024, section 3.3.2)."""
    assert balanced_split(LARGE, 8192, 16, 1) == (7, *[8] * 14, 7)
    assert balanced_split(LARGE, 8192, 8, 2) == (7, *[8] * 14, 7)


def test_a_wide_head_stands_beside_fewer_layers():
    split = balanced_split(WIDE_HEAD, 8192, 8, 1)
    assert split is not None
    assert sum(split) == 32
    assert split[-1] < 4
    head = head_layers(WIDE_HEAD, 8192)
    assert slowest(split, 8, head) < slowest((4,) * 8, 8, head)


def test_even_stages_stay_where_the_head_is_light():
    light = replace(LARGE, num_layers=128, vocab_size=32000)
    assert all(balanced_split(light, 8192, stages, 1) is None for stages in (1, 2, 4, 8, 16, 32, 64, 128))


@given(st.integers(2, 40), st.integers(1, 12), st.integers(1, 3), st.sampled_from((1000, 60_000, 500_000)))
def test_a_balanced_split_holds_all_layers_and_is_no_slower(
    layers: int, stages: int, chunks: int, vocab: int
):
    model = replace(WIDE_HEAD, num_layers=layers, vocab_size=vocab)
    split = balanced_split(model, 4096, stages, chunks)
    if split is None:
        return
    assert len(split) == stages * chunks
    assert sum(split) == layers
    assert min(split) >= 1
    head, even = head_layers(model, 4096), split_evenly(layers, stages * chunks)
    if chunks == 1:
        assert slowest(split, stages, head) <= slowest(even, stages, head) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("kind", "stages", "chunks", "split"),
    [
        ("even", 4, 1, ()),
        ("even", 5, 2, None),
        ("balanced", 1, 1, None),
        ((30, 32, 32, 32), 4, 1, (30, 32, 32, 32)),
        ((30, 32, 32, 32), 2, 2, (30, 32, 32, 32)),
        ((30, 32, 32, 32), 8, 1, None),
        ((30, 32, 32, 33), 4, 1, None),
    ],
)
def test_ways_to_deal_layers_out_are_found_by_their_words(
    kind: PlanValue, stages: int, chunks: int, split: tuple[int, ...] | None
):
    assert splits_of_parts(LARGE, 8192, kind, stages, chunks) == split
