"""What plans of one kind set differently, as a text of plans says it."""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.core.plans.text import EVEN, OVERLAPS, PLAN_KEYS, PlanValue, format_values, stated_values

#: Fields that follow from others where a text does not say them.
_FOLLOW = ("schedule", "expert_tensor_parallel")


def differing_items(plan: Plan, other: Plan) -> list[str]:
    """What the other plan sets differently, as a text of plans says it.

    >>> differing_items(Plan(micro_batch_size=2), Plan(offload="optimizer"))
    ['offload=optimizer', 'mbs=1']
    """
    fields = [
        key.field for key in PLAN_KEYS.values() if getattr(plan, key.field) != getattr(other, key.field)
    ]
    if set(OVERLAPS.values()) & set(fields):
        fields += [field for field in OVERLAPS.values() if field not in fields]
    stated = stated_values(other)
    values: dict[str, PlanValue | None] = {
        field: getattr(other, field) for field in fields if field in stated or field not in _FOLLOW
    }
    if values.get("stage_layers") == ():
        values["stage_layers"] = EVEN
    return format_values({field: value for field, value in values.items() if value is not None}, " ").split()
