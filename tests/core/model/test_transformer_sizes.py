from __future__ import annotations

from dataclasses import replace

import pytest

from perfcast.core.model.transformer import Experts
from perfcast.errors import ModelError
from small_transformers import gpt, llama


@pytest.mark.parametrize(
    "name", ["num_layers", "hidden_size", "num_attention_heads", "num_kv_heads", "head_size"]
)
def test_sizes_below_one_are_refused_by_name(name: str):
    with pytest.raises(ModelError, match=f"{name} 0"):
        replace(llama(), **{name: 0})


def test_heads_share_keys_and_values_evenly_or_not_at_all():
    with pytest.raises(ModelError, match="8 attention heads are no multiple of 3 kv heads"):
        llama(heads=8, kv_heads=3)


def test_leading_dense_layers_have_no_experts():
    experts = Experts(num_experts=4, experts_per_token=1, ffn_hidden_size=8, num_dense_layers=3)
    assert llama(experts=experts).num_expert_layers == 8 - 3
    assert gpt().num_expert_layers == 0
