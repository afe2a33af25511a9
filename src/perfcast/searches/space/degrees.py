"""Degrees of parallelism that devices, model and sequence allow."""

from __future__ import annotations

from itertools import product

import numpy as np

from perfcast.core.arrays import Integers
from perfcast.core.model.transformer import Transformer
from perfcast.frameworks.profile import Axis
from perfcast.searches.space.definition import Space
from perfcast.searches.space.fixed import allowed


def divisors(number: int, largest: int | None = None) -> list[int]:
    """All divisors in rising order, up to ``largest``.

    >>> divisors(12, 6)
    [1, 2, 3, 4, 6]
    """
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return [n for n in sorted({*small, *(number // n for n in small)}) if largest is None or n <= largest]


def list_degrees(
    model: Transformer, num_devices: int, sequence_length: int, space: Space
) -> dict[str, Integers]:
    """dp · tp · pp · cp = devices, and the experts' degrees."""
    rows, fixed = [], space.fixed
    pieces = min(space.largest_context_parallel, max(sequence_length // space.least_context_tokens, 1))
    tensors = _tensor_degrees(
        model, _largest(space, "tp", None if "tp" in fixed else space.largest_tensor_parallel)
    )
    contexts = divisors(sequence_length, _largest(space, "cp", None if "cp" in fixed else pieces))
    stages = _largest(space, "pp", model.num_layers)
    for tp, cp in product(allowed(fixed, "tp", tensors), allowed(fixed, "cp", contexts)):
        if num_devices % (tp * cp):
            continue
        for pp in allowed(fixed, "pp", divisors(num_devices // (tp * cp), stages)):
            dp = num_devices // (tp * cp * pp)
            if not allowed(fixed, "dp", [dp]):
                continue
            rows += [(dp, tp, pp, cp, ep, etp) for ep, etp in _expert_degrees(model, dp * cp * tp, tp, space)]
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    names = (
        "data_parallel",
        "tensor_parallel",
        "pipeline_parallel",
        "context_parallel",
        "expert_parallel",
        "expert_tensor_parallel",
    )
    return {name: table[:, at] for at, name in enumerate(names)}


def _largest(space: Space, axis: Axis, largest: int | None) -> int | None:
    """The largest degree of an axis: 1 where a model is not cut along it, unless it is fixed."""
    return largest if axis in space.axes or axis in space.fixed else 1


def _tensor_degrees(model: Transformer, largest: int | None) -> list[int]:
    shared = model.experts.shared_ffn_hidden_size if model.experts else 0
    return [
        tp
        for tp in divisors(model.num_attention_heads, largest)
        if model.ffn_hidden_size % tp == 0
        and shared % tp == 0
        and (model.num_kv_heads % tp == 0 or tp % model.num_kv_heads == 0)
    ]


def _expert_degrees(model: Transformer, ranks: int, tp: int, space: Space) -> list[tuple[int, int]]:
    experts = model.experts
    if experts is None:
        is_left = allowed(space.fixed, "ep", [1]) and allowed(space.fixed, "etp", [tp])
        return [(1, tp)] if is_left else []
    return [
        (ep, etp)
        for ep in allowed(
            space.fixed, "ep", divisors(experts.num_experts, _largest(space, "ep", experts.num_experts))
        )
        for etp in allowed(space.fixed, "etp", sorted({1, tp}))
        if ranks % (ep * etp) == 0 and experts.ffn_hidden_size % etp == 0
    ]
