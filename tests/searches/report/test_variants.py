"""What folded plans set differently."""

from __future__ import annotations

import pytest

from perfcast.core.plan import Plan
from perfcast.searches.report.variants import differing_items

CHUNKS = {"pipeline_parallel": 2, "schedule": "interleaved", "num_micro_batches": 4}


@pytest.mark.parametrize(
    ("changes", "items"),
    [
        ({"offload": "optimizer"}, ["offload=optimizer"]),
        ({"micro_batch_size": 2, "num_micro_batches": 2}, ["mbs=2"]),
        ({"virtual_stages_per_rank": 4}, ["vp=4"]),
        ({"stage_layers": ()}, ["stages=even"]),
        ({"overlaps_gradients": False, "overlaps_weights": False}, ["overlap=none"]),
    ],
)
def test_only_what_differs_is_said(changes, items):
    plan = Plan(**CHUNKS, virtual_stages_per_rank=2, stage_layers=(2, 2, 2, 1))
    other = Plan(**{**CHUNKS, "virtual_stages_per_rank": 2, "stage_layers": (2, 2, 2, 1), **changes}
                 if "virtual_stages_per_rank" not in changes
                 else {**CHUNKS, "stage_layers": (2, 2, 2, 1) * 2, **changes})  # fmt: skip
    found = [item for item in differing_items(plan, other) if not item.startswith("stages=2/")]
    assert found == items


def test_a_usual_value_is_said_where_the_first_plan_departs_from_it():
    assert differing_items(Plan(tensor_parallel=2), Plan(tensor_parallel=2, sequence_parallel=True)) == [
        "sp=1"
    ]
    assert differing_items(Plan(offload="optimizer"), Plan()) == ["offload=none"]
