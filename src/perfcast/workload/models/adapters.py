"""Low-rank adaptation: a step in which the model's own weights are frozen.

Hu et al.: LoRA, ICLR 2022: no gradient of a frozen weight is computed, reduced or applied; gradients still
flow back through all layers. The adapters' own products (rank 8 to 64 beside widths of thousands) are left
out.
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.work import Calls, Layer, StepWork


def freeze_weights(work: StepWork) -> StepWork:
    """The same step without weight gradients, their reduction and optimizer, and what that hands round."""
    is_sharded = work.plan.zero_stage == 3
    return replace(
        work,
        layers=tuple(_freeze_layer(layer, is_sharded=is_sharded) for layer in work.layers),
        stages=tuple(replace(stage, optimizer=()) for stage in work.stages),
        flops=work.flops * 2 // 3,
        assumptions=(
            *work.assumptions,
            "adapters alone are trained: no weight gradients of the model, no gradient reduction; the "
            "adapters' own products are left out",
        ),
    )


def _freeze_layer(layer: Layer, *, is_sharded: bool) -> Layer:
    """Weights that never change are gathered only where they are sharded for good."""
    return replace(
        layer,
        backward=_without_weight_gradients(layer.backward),
        gradient_reduction=(),
        gather=layer.gather if is_sharded else (),
        gather_again=layer.gather_again if is_sharded else (),
    )


def _without_weight_gradients(calls: Calls) -> Calls:
    """What waited for a dropped call waits for what that call waited for."""
    places: dict[int, tuple[int, ...]] = {}
    kept: list[int] = []
    for index, call in enumerate(calls):
        if call.is_weight_gradient:
            places[index] = tuple(dict.fromkeys(at for old in call.after for at in places[old]))
        else:
            places[index] = (len(kept),)
            kept.append(index)
    return tuple(
        replace(
            calls[index],
            after=tuple(dict.fromkeys(at for old in calls[index].after for at in places[old])),
        )
        for index in kept
    )
