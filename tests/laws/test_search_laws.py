"""More to choose from never worsens what is chosen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cases import cases
from perfcast.catalogs.clusters import load_cluster
from perfcast.core.model.transformer import Transformer
from perfcast.cost.roofline import Roofline
from perfcast.errors import PerfcastError
from perfcast.searches.request import SearchRequest
from perfcast.searches.search import search_plans
from perfcast.searches.space.definition import Space

DENSE = Transformer(
    num_layers=8,
    hidden_size=1024,
    num_attention_heads=16,
    num_kv_heads=4,
    head_size=64,
    ffn_hidden_size=4096,
    vocab_size=32000,
    is_gated=True,
    norm="rmsnorm",
    has_linear_bias=False,
)
PLAIN = Space(
    recomputes=("none",),
    offloads=("none",),
    zero_stages=(1,),
    overlaps_gradients=(1,),
    stage_splits=("even",),
    orders=("tp-cp-dp-pp",),
    largest_micro_batch=2,
    largest_virtual_stages=1,
    fixed={"sp": 0},
)
#: What a space may hold more of.
MORE = (
    {"recomputes": ("none", "full")},
    {"zero_stages": (0, 1, 3)},
    {"overlaps_gradients": (1, 0)},
    {"stage_splits": ("even", "balanced")},
    {"largest_micro_batch": 4},
    {"largest_virtual_stages": 2},
    {"fixed": {}},
    {"offloads": ("none", "optimizer")},
)
AS_DRAWN = (Phase.explicit, Phase.generate)
clusters = st.sampled_from(("dgx-h100:8", "dgx-a100:16", "dgx-h100:16"))
batches = st.sampled_from((16, 32, 64, 96))
fractions = st.sampled_from((0.05, 0.08, 0.2, 1.0))


def best(cluster: str, batch: int, space: Space, fraction: float) -> float:
    """Seconds of the best plan's step; infinite where nothing fits."""
    there = load_cluster(cluster)
    request = SearchRequest(
        model=DENSE,
        clusters=(cluster,),
        global_batch_size=batch,
        sequence_length=1024,
        space=space,
        any_framework=True,
        cost_models={there.device: Roofline()},
        max_memory_fraction=fraction,
    )
    try:
        return search_plans(request, there).winner.step_seconds
    except PerfcastError:
        return float("inf")


@settings(max_examples=cases(1, share=0.001), phases=AS_DRAWN)
@given(clusters, batches, fractions, st.lists(st.sampled_from(MORE), min_size=1, max_size=3))
def test_more_options_never_worsen_a_search(cluster, batch, fraction, more):
    space = PLAIN
    found = best(cluster, batch, space, fraction)
    for added in more:
        space = replace(space, **added)
        wider = best(cluster, batch, space, fraction)
        assert wider <= found * (1 + 1e-9)
        found = wider


@settings(max_examples=cases(1, share=0.001), phases=AS_DRAWN)
@given(clusters, batches, fractions, fractions, st.sampled_from(MORE))
def test_more_memory_never_worsens_a_search(cluster, batch, one, other, added):
    space = replace(PLAIN, **added)
    less, more = sorted([one, other])
    assert best(cluster, batch, space, more) <= best(cluster, batch, space, less) * (1 + 1e-9)
