"""The order of a layer's parts: what each placement of norms must have."""

from dataclasses import replace

import pytest

from perfcast.core.model.layer import LayerPart, layer_parts
from perfcast.core.model.transformer import Transformer

MODEL = Transformer(
    num_layers=2, hidden_size=64, num_attention_heads=4, num_kv_heads=4, head_size=16,
    ffn_hidden_size=256, vocab_size=1000,
)  # fmt: skip
PLACEMENTS = ("before", "after", "both", "shared", "parallel")


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_each_branch_is_taken_once_and_returns_to_the_stream(placement: str):
    parts = layer_parts(replace(MODEL, norm_placement=placement))
    assert parts.count(LayerPart.ATTENTION) == parts.count(LayerPart.MLP) == 1
    assert parts.count(LayerPart.BRANCH) == 2
    assert parts.count(LayerPart.ADD) + parts.count(LayerPart.JOIN) == 2
    assert parts.index(LayerPart.ATTENTION) < parts.index(LayerPart.MLP)


def test_norms_stand_where_the_placement_says():
    def norms(placement: str) -> list[str]:
        return [part.value for part in layer_parts(replace(MODEL, norm_placement=placement)) if part.is_norm]

    assert norms("before") == norms("parallel") == ["attention.norm", "mlp.norm"]
    assert norms("after") == ["attention.norm_behind", "mlp.norm_behind"]
    assert norms("both") == ["attention.norm", "attention.norm_behind", "mlp.norm", "mlp.norm_behind"]
    assert norms("shared") == ["attention.norm"]
