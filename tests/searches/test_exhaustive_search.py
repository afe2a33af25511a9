"""The winner of a search is the fastest of all plans, each weighed and simulated by itself."""

import pytest

from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Experts, Transformer
from perfcast.core.plan import SCHEDULES
from perfcast.core.training import Training
from perfcast.cost.roofline import Roofline
from perfcast.errors import PlanError
from perfcast.memory_use.footprint import estimate_footprint
from perfcast.prediction.names import resolve_device
from perfcast.prediction.step.predict import predict_plan
from perfcast.searches.request import SearchRequest
from perfcast.searches.search import search_plans
from perfcast.searches.space.definition import Space
from perfcast.searches.space.enumeration import enumerate_plans

LENGTH, MOST_PLANS = 1024, 60
DENSE = Transformer(
    num_layers=8, hidden_size=1024, num_attention_heads=16, num_kv_heads=4, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000, is_gated=True, norm="rmsnorm", has_linear_bias=False,
)  # fmt: skip
SPARSE = Transformer(
    num_layers=4, hidden_size=1024, num_attention_heads=16, num_kv_heads=16, head_size=64,
    ffn_hidden_size=4096, vocab_size=32000, ties_embeddings=False,
    experts=Experts(num_experts=8, experts_per_token=2, ffn_hidden_size=1024),
)  # fmt: skip
FEW = {
    "recomputes": ("none",), "offloads": ("none",), "zero_stages": (1,), "overlaps_gradients": (1,),
    "stage_splits": ("even",),
}  # fmt: skip
CASES = {
    "degrees and chunks": (
        DENSE, "dgx-h100:8", 16, Space(**FEW, orders=("tp-cp-dp-pp",), fixed={"mbs": 1, "sp": 0})
    ),
    "schedules of few micro-batches": (
        DENSE, "dgx-a100:16", 16, Space(**FEW | {"schedules": SCHEDULES}, fixed={"pp": 4, "mbs": 1, "sp": 0})
    ),
    "orders over racks of a size that is no power of two": (
        DENSE, "gb200-nvl72:144", 144,
        Space(**FEW, fixed={"mbs": 1, "sp": 0, "vp": 1, "dp": 36}),
    ),
    "experts": (
        SPARSE, "dgx-h100:16", 16, Space(**FEW, fixed={"mbs": 1, "sp": 0, "pp": 2, "dp": 4, "vp": 1})
    ),
    "sharding and recomputation where memory is short": (
        DENSE, "dgx-h100:8", 32,
        Space(
            **FEW | {"recomputes": ("none", "full"), "zero_stages": (0, 1, 3)}, largest_micro_batch=4,
            fixed={"pp": 1, "sp": 0, "reshard": 1},
        ),
    ),
}  # fmt: skip


def simulate_fitting(model, cluster, plans, most_bytes):
    """Step seconds of every plan that fits and that the cluster can follow."""
    training, device, seconds = Training(framework="megatron"), resolve_device(cluster.device), {}
    for plan in plans:
        if estimate_footprint(model, plan, training, LENGTH, device=device).device_bytes > most_bytes:
            continue
        try:
            forecast = predict_plan(
                model, cluster, plan, training=training, sequence_length=LENGTH, cost_model=Roofline(),
                recommendations=False, memory=False,
            )  # fmt: skip
        except PlanError:  # a group that fills a level of the cluster unevenly
            continue
        seconds[plan] = forecast.step_seconds
    return seconds


@pytest.mark.parametrize("case", CASES)
def test_the_winner_is_the_fastest_plan_of_the_space(case):
    model, name, batch, space = CASES[case]
    cluster, fraction = load_cluster(name), 0.06 if "memory" in case else 1.0
    request = SearchRequest(
        model=model,
        clusters=(name,),
        global_batch_size=batch,
        sequence_length=LENGTH,
        space=space,
        any_framework=True,
        cost_models={cluster.device: Roofline()},
        max_memory_fraction=fraction,
    )
    found = search_plans(request, cluster)
    table = enumerate_plans(model, cluster.num_devices, batch, LENGTH, space)
    assert len(table) <= MOST_PLANS
    plans = [table.plan(at) for at in range(len(table))]
    most_bytes = fraction * resolve_device(cluster.device).memory_bytes
    seconds = simulate_fitting(model, cluster, plans, most_bytes)
    weighed = [found.winner.step_seconds, *(one.plan.step_seconds for one in found.variants if not one.of)]
    assert min(weighed) == pytest.approx(min(seconds.values()), rel=1e-9)
    assert found.winner.step_seconds == pytest.approx(seconds[found.winner.plan], rel=1e-9)
