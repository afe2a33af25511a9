"""The heads of attention on one rank of a tensor-parallel group, and what a cache keeps of them.

Plain attention has a heads of d elements, and key and value heads that several query heads may share. Latent
attention (DeepSeek-AI: DeepSeek-V2, 2024, section 2.1) expands keys and values for every head: n + r elements
of a query or key (r of them rotated), v of a value.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of one rank.

    Attributes:
        queries: Heads of queries.
        keys: Heads of keys, and of values.
        size: Elements of a query or key of one head.
        value_size: Elements of a value of one head.
    """

    queries: int
    keys: int
    size: int
    value_size: int

    @property
    def query_width(self) -> int:
        """Elements of a token's queries."""
        return self.queries * self.size

    @property
    def key_width(self) -> int:
        """Elements of a token's keys."""
        return self.keys * self.size

    @property
    def value_width(self) -> int:
        """Elements of a token's values."""
        return self.keys * self.value_size

    @property
    def joint_width(self) -> int:
        """Elements of a token's queries, keys and values together."""
        return self.query_width + self.key_width + self.value_width

    @property
    def output_width(self) -> int:
        """Elements of a token behind attention, before the output's product."""
        return self.queries * self.value_size


def heads_of_rank(model: Transformer, tensor_parallel: int = 1) -> Heads:
    """The heads that attention works on; fewer key and value heads than ranks are copied."""
    queries, latent = model.num_attention_heads // tensor_parallel, model.latent_attention
    if latent is None:
        keys = max(1, model.num_kv_heads // tensor_parallel)
        return Heads(queries, keys, model.head_size, model.head_size)
    return Heads(queries, queries, latent.nope_head_size + latent.rope_head_size, latent.value_head_size)


def cached_width(model: Transformer, tensor_parallel: int = 1) -> int:
    """Elements that a rank's cache keeps of one token in one layer: keys and values of its heads.

    Latent attention keeps the compressed vector and the rotated part of the key, whole on every rank
    (DeepSeek-V2, section 2.1.2).
    """
    latent = model.latent_attention
    if latent is not None:
        return latent.kv_rank + latent.rope_head_size
    heads = heads_of_rank(model, tensor_parallel)
    return heads.key_width + heads.value_width
