"""What one rank's part of an inference depends on, with the sizes that follow from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.model.heads import Heads, heads_of_rank
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.precision import Part, Precision
from perfcast.frameworks.profile import InferenceProfile

#: Formats whose scales are known before, or found within a row: a norm can quantise what it gives.
_QUANTISED_BEFORE = ("fp8", "fp8_static", "fp8_token", "nvfp4")
#: Parts of a layer by what their modules' names begin with; all others are in the experts' format.
_PARTS: Mapping[str, Part] = {"attention": "attention", "mlp": "mlp", "shared": "mlp"}


@dataclass(frozen=True, slots=True)
class Serving:
    """A model, cut by a plan, as one rank answers one micro-batch.

    Attributes:
        batch_size: Sequences of a micro-batch on one replica.
        context_length: Tokens of a sequence: of the prompt, or of the cache with the new token in it.
        replays_graph: Whether the host issues no kernels.
        profile: Of the framework whose kernels run.
        read_tokens: Of the context of a prompt, those at its end that are read now, behind a cache of the
            others; None: all.
        drafted_tokens: While decoding, those that are checked beside each sequence's new token.
    """

    model: Transformer
    plan: Plan
    precision: Precision
    batch_size: int
    context_length: int
    is_decode: bool
    replays_graph: bool
    profile: InferenceProfile
    read_tokens: int | None = None
    drafted_tokens: int = 0

    def format_of(self, module: str) -> str:
        """Format of the products of a module: of attention, of an MLP or shared experts, of experts."""
        part = _PARTS.get(module.partition(".")[0])
        return self.precision.format if part is None else self.precision.format_of(part)

    def fused_operand(self, module: str) -> DType | None:
        """Type in which a norm or an activation hands a module's products an operand.

        None: as wide as they compute.
        """
        name = self.format_of(module)
        if self.profile.fuses_quantisation and name in _QUANTISED_BEFORE:
            return FORMATS[name].activation.element
        return None

    @property
    def fuses_all_reduce(self) -> bool:
        """Whether the norm behind a sum over ranks is in the same kernel, of so few tokens."""
        ranks = self.plan.tensor_parallel
        message_bytes = self.precision.element.bytes_of(self.tokens * self.model.hidden_size)
        return self.is_decode and ranks > 1 and self.profile.fuses_all_reduce(ranks, message_bytes)

    @property
    def num_queries(self) -> int:
        """New tokens of a sequence on this rank."""
        if self.is_decode:
            return 1 + self.drafted_tokens
        return math.ceil((self.read_tokens or self.context_length) / self.plan.context_parallel)

    @property
    def num_keys(self) -> int:
        """Tokens of a sequence whose keys this rank attends to: its part of the cache while decoding."""
        if self.is_decode:
            return math.ceil(self.context_length / self.plan.context_parallel)
        return self.context_length

    @property
    def tokens(self) -> int:
        """Rows of the products."""
        return self.batch_size * self.num_queries

    @property
    def heads(self) -> Heads:
        """Heads of attention on this rank."""
        return heads_of_rank(self.model, self.plan.tensor_parallel)
