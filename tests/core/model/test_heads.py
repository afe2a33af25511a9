"""Heads of a rank, and what a cache keeps of a token, by hand."""

from dataclasses import replace

from perfcast.core.model.heads import Heads, cached_width, heads_of_rank
from perfcast.core.model.transformer import LatentAttention, Transformer

PLAIN = Transformer(
    num_layers=2, hidden_size=1024, num_attention_heads=16, num_kv_heads=4, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000,
)  # fmt: skip
LATENT = replace(
    PLAIN,
    latent_attention=LatentAttention(
        query_rank=256, kv_rank=128, nope_head_size=48, rope_head_size=16, value_head_size=32
    ),
)


def test_heads_are_cut_and_few_keys_are_copied():
    assert heads_of_rank(PLAIN, 2) == Heads(8, 2, 64, 64)
    assert heads_of_rank(PLAIN, 8) == Heads(2, 1, 64, 64)
    assert heads_of_rank(PLAIN).joint_width == (16 + 2 * 4) * 64


def test_latent_attention_has_keys_and_values_of_every_head():
    assert heads_of_rank(LATENT, 4) == Heads(4, 4, 64, 32)
    assert heads_of_rank(LATENT).output_width == 16 * 32


def test_the_cache_of_latent_attention_is_whole_on_every_rank():
    assert [cached_width(PLAIN, tp) for tp in (1, 4, 8)] == [512, 128, 128]
    assert [cached_width(LATENT, tp) for tp in (1, 8)] == [144, 144]
