"""Plans in columns and back."""

import numpy as np

from perfcast.core.plan import Plan
from perfcast.core.plans.table import join, to_table

PLANS = [
    Plan(data_parallel=4, tensor_parallel=2, expert_tensor_parallel=2, recompute="full", zero_stage=1),
    Plan(pipeline_parallel=4, virtual_stages_per_rank=2, schedule="interleaved", expert_tensor_parallel=1,
         num_micro_batches=4, offload="optimizer", reshard_after_forward=False),
    Plan(data_parallel=4, num_shards=2, zero_stage=1, pipeline_parallel=2, stage_layers=(5, 3),
         recompute="full", recompute_layers=2, expert_tensor_parallel=1),
]  # fmt: skip


def test_a_plan_comes_back_from_its_columns():
    table = to_table(PLANS)
    assert [table.plan(at) for at in range(len(table))] == PLANS


def test_tables_join_and_split():
    table = join([to_table(PLANS), to_table(PLANS[:1])])
    assert len(table) == 4
    assert table.take(np.array([3])).plan(0) == PLANS[0]
    assert table.take(table.pipeline_parallel > 1).plan(0) == PLANS[1]


def test_replicas_and_ranks_of_stages_are_products_of_degrees():
    plans = [Plan(data_parallel=4, context_parallel=2, tensor_parallel=2, expert_parallel=4)]
    table = to_table(plans)
    assert table.num_dense_replicas.tolist() == [8]
    assert table.ranks_per_stage.tolist() == [16]
    assert table.num_expert_replicas.tolist() == [plans[0].num_expert_replicas]


def test_tables_that_state_other_layers_of_stages_join():
    tables = [to_table([Plan(pipeline_parallel=2, stage_layers=split)]) for split in ((5, 3), (3, 5), (5, 3))]
    joined = join(tables)
    assert joined.splits == ((), (5, 3), (3, 5))
    assert [joined.plan(at).stage_layers for at in range(3)] == [(5, 3), (3, 5), (5, 3)]
