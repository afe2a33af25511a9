"""What a plan recomputes where that was not said: as little as the device's memory allows.

No one runs a step that does not fit, so that the time of one is of no use; of those that fit, the one that
computes least again is the fastest. The model's own modules run as they are asked for, on one device as on
many: there the answer says what would make them fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace

from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import layers_of_parts
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.plans.text import format_values, stated_values
from perfcast.core.training import Training
from perfcast.frameworks.load import load_training_profile
from perfcast.memory_use.footprint import estimate_footprint, footprint_columns
from perfcast.units import format_bytes

_KEYS = ("recompute", "recompute_layers")


def least_recomputation(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, device: Device
) -> tuple[Plan, str]:
    """The plan with as little recomputation as fits, of what its framework has; what was chosen, in words.

    The plan as it is, and '', where it fits without or nothing does.

    Raises:
        PlanError: A plan that cannot cut the model.
    """

    needed = estimate_footprint(model, plan, training, sequence_length, device=device).device_bytes
    capacity = device.memory_bytes
    if needed <= capacity:
        return plan, ""
    for plans in _more_and_more(model, plan, training):
        held = footprint_columns(model, to_table(plans), training, sequence_length, device=device)
        found = bisect_left(held.device_bytes.tolist(), True, key=lambda taken: taken <= capacity)
        if found < len(plans):
            values = {key: value for key, value in stated_values(plans[found]).items() if key in _KEYS}
            without = f"{format_bytes(needed)} of {format_bytes(capacity)}"
            return plans[found], (
                f"recomputation was not given: {format_values(values)}, as little as fits; "
                f"without any the step takes {without}"
            )
    return plan, ""


def _more_and_more(model: Transformer, plan: Plan, training: Training) -> Iterator[tuple[Plan, ...]]:
    """What can be computed again, the least first; in each row plans that take less and less memory."""
    profile = load_training_profile(training.framework)
    known = profile.support.recomputes
    if "selective" in known:
        yield (replace(plan, recompute="selective"),)
    if "full" not in known:
        return
    whole = replace(plan, recompute="full", recompute_layers=None)
    if not profile.support.recomputes_some_layers:
        yield (whole,)
        return
    most = max(layers_of_parts(model, plan, balances_head=profile.balances_stages))
    some = (replace(whole, recompute_layers=count) for count in range(1, most))
    yield (*some, whole)
