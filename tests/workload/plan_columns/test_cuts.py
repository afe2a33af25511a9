"""How layers are dealt out to stages, and that it is what each plan's step holds."""

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.training import Training
from perfcast.errors import PlanError
from perfcast.workload.blocks import build_step_work
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.plan_columns.cuts import cut_models
from perfcast.workload.plan_columns.layers import Setting

DENSE = Transformer(
    num_layers=8, hidden_size=64, num_attention_heads=4, num_kv_heads=4, head_size=16, ffn_hidden_size=256,
    vocab_size=512,
)  # fmt: skip
SPARSE = Transformer(
    num_layers=8, hidden_size=64, num_attention_heads=4, num_kv_heads=4, head_size=16, ffn_hidden_size=256,
    vocab_size=512, num_prediction_layers=1,
    experts=Experts(num_experts=4, experts_per_token=2, ffn_hidden_size=64, num_dense_layers=3),
)  # fmt: skip


def cut(model, plans, framework="megatron"):
    setting = Setting(model, load_cluster("dgx-h100:8"), Training(framework=framework), 128)
    return cut_models(setting, to_table(plans))


def spelled(cuts, plan):
    """Stages of a plan: chunks of (kind, count)."""
    one = cuts.cuts[cuts.place[plan]]
    return [
        [[(cuts.kinds[kind], count) for kind, count in chunk] for chunk in one.stages[kind_of_stage]]
        for kind_of_stage in one.stage_kinds
    ]


def test_four_stages_of_eight_layers_are_of_three_kinds():
    """Two layers each; the embedding before the first, the head behind the last, the middle ones alike."""
    cuts = cut(DENSE, [Plan(pipeline_parallel=4)])
    layer = cuts.kinds[1]
    assert cuts.cuts[0].stage_kinds == (0, 1, 1, 2)
    assert spelled(cuts, 0) == [
        [[(ends.EMBEDDING, 1), (layer, 2)]], [[(layer, 2)]], [[(layer, 2)]], [[(layer, 2), (ends.HEAD, 1)]],
    ]  # fmt: skip


def test_virtual_stages_hold_every_second_part():
    """pp = 2, vp = 2: rank 0 has the parts 0 and 2, rank 1 the parts 1 and 3."""
    cuts = cut(
        DENSE,
        [Plan(pipeline_parallel=2, virtual_stages_per_rank=2, num_micro_batches=2, schedule="interleaved")],
    )
    layer = cuts.kinds[1]
    assert spelled(cuts, 0) == [
        [[(ends.EMBEDDING, 1), (layer, 2)], [(layer, 2)]], [[(layer, 2)], [(layer, 2), (ends.HEAD, 1)]],
    ]  # fmt: skip


def test_dualpipe_ranks_hold_their_stage_and_the_mirrored_one():
    plan = Plan(pipeline_parallel=2, num_micro_batches=4, schedule="dualpipe")
    cuts = cut(DENSE, [plan])
    layer = cuts.kinds[1]
    first, last = [(ends.EMBEDDING, 1), (layer, 4)], [(layer, 4), (ends.HEAD, 1)]
    assert spelled(cuts, 0) == [[first, last], [last, first]]


def test_plans_that_differ_in_other_things_share_a_cut():
    cuts = cut(
        DENSE,
        [
            Plan(pipeline_parallel=2, data_parallel=4), Plan(pipeline_parallel=4, tensor_parallel=2),
            Plan(pipeline_parallel=2, tensor_parallel=4, zero_stage=1, micro_batch_size=2),
        ],
    )  # fmt: skip
    assert len(cuts.cuts) == 2
    assert cuts.place.tolist() == [0, 1, 0]


PLANS = [
    Plan(), Plan(pipeline_parallel=2), Plan(pipeline_parallel=8),
    Plan(pipeline_parallel=2, stage_layers=(5, 3)), Plan(pipeline_parallel=3, stage_layers=(3, 3, 2)),
    Plan(pipeline_parallel=2, virtual_stages_per_rank=4, num_micro_batches=2, schedule="interleaved"),
    Plan(pipeline_parallel=4, num_micro_batches=8, schedule="dualpipe"),
    Plan(pipeline_parallel=2, recompute="full", recompute_layers=1),
]  # fmt: skip


@pytest.mark.parametrize("model", [DENSE, SPARSE], ids=["dense", "experts and a prediction layer"])
@pytest.mark.parametrize("framework", ["megatron", "nanotron"])
def test_every_stage_holds_as_many_layers_of_each_kind_as_the_plans_step(model, framework):
    cuts = cut(model, PLANS, framework)
    for at, plan in enumerate(PLANS):
        work = build_step_work(model, plan, Training(framework=framework), 128)
        found = [[sum(count for _, count in chunk) for chunk in stage] for stage in spelled(cuts, at)]
        held = [[sum(run.count for run in chunk) for chunk in stage.chunks] for stage in work.stages]
        own = [stage[: len(part)] for stage, part in zip(found, held, strict=True)]  # dualpipe: its own alone
        assert own == held, plan


def test_fewer_layers_than_parts_are_refused():
    with pytest.raises(PlanError, match="pp=16 stages need at least as many layers; the model has 8"):
        cut(DENSE, [Plan(pipeline_parallel=16)])
