"""The parts of a layer of a transformer, in the order that a model puts them.

Read by its weights (which norms it has), by the kernels of training (forward in this order, backward in the
mirrored one) and by those of serving (whose kernels of norms add the residual).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from perfcast.core.arrays import Integers
from perfcast.core.model.transformer import Transformer


class LayerPart(StrEnum):
    """One part of a layer.

    ``BRANCH``: attention or MLP takes what the residual stream, or a norm, holds; the backward adds its
    gradient to that. ``JOIN``: outputs of attention and MLP side by side are added. ``ADD``: dropout, and the
    sum with the residual stream.
    """

    BRANCH = "branch"
    ATTENTION_NORM = "attention.norm"
    ATTENTION = "attention"
    ATTENTION_NORM_BEHIND = "attention.norm_behind"
    MLP_NORM = "mlp.norm"
    MLP = "mlp"
    MLP_NORM_BEHIND = "mlp.norm_behind"
    JOIN = "join"
    ADD = "add"

    @property
    def is_norm(self) -> bool:
        """Whether it is a norm over the hidden size."""
        return ".norm" in self.value


def _order(names: str) -> tuple[LayerPart, ...]:
    return tuple(LayerPart(name) for name in names.split())


#: By where the norms stand (``Transformer.norm_placement``).
_PARTS: Mapping[str, tuple[LayerPart, ...]] = {
    "before": _order("branch attention.norm attention add branch mlp.norm mlp add"),
    "after": _order("branch attention add attention.norm_behind branch mlp add mlp.norm_behind"),
    "both": _order(
        "branch attention.norm attention attention.norm_behind add branch mlp.norm mlp mlp.norm_behind add"
    ),
    "shared": _order("branch attention.norm attention branch mlp join add"),
    "parallel": _order("branch attention.norm attention branch mlp.norm mlp join add"),
}


def layer_parts(model: Transformer) -> tuple[LayerPart, ...]:
    """The parts of each layer of a model; its MLP may be a mixture of experts."""
    return _PARTS[model.norm_placement]


_Count = TypeVar("_Count", int, Integers)


def num_linear_before(model: Transformer, layers: _Count) -> _Count:
    """Of the first ``layers`` of a model, those with linear attention: a full one closes each group.

    >>> [num_linear_before(qwen3_next, layers) for layers in (0, 3, 4, 5, 48)]  # every fourth is full
    [0, 3, 3, 4, 36]
    """
    num_full = model.num_layers - model.num_linear_layers
    return layers - layers * num_full // model.num_layers
