"""Heuristic and learned costs: hand-computed traffic and laws."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.catalogs.devices import load_device
from perfcast.core.collective import message_bytes
from perfcast.core.embedding.columns import embedding_columns
from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.core.embedding.reuse import uniform_reuse, zipf_reuse
from perfcast.cost.embedding.all_to_all import all_to_all_operation
from perfcast.cost.embedding.cache import hit_shares
from perfcast.cost.embedding.heuristic import HeuristicEmbeddingPricer
from perfcast.cost.embedding.learned import SHIPPED, LearnedEmbeddingPricer, load_embedding_weights
from perfcast.cost.embedding.model import PHASES, EmbeddingPricer, price_lookups
from perfcast.cost.embedding.traffic import backward_traffic, forward_traffic
from perfcast.errors import PlanError, UnknownNameError

V100 = HeuristicEmbeddingPricer(load_device("v100-sxm-32gb"), "sgd")
CPU = LearnedEmbeddingPricer(load_embedding_weights(SHIPPED)["sgd"])
both = pytest.mark.parametrize("pricer", [V100, CPU], ids=["heuristic", "learned"])

lookups = st.builds(
    EmbeddingLookup,
    num_rows=st.integers(100, 10**7),
    dim=st.sampled_from([16, 32, 64, 128]),
    batch_size=st.sampled_from([128, 1024, 4096]),
    pooling=st.sampled_from([1.0, 2.0, 10.0, 40.0]),
)


def test_a_cache_of_all_touched_rows_misses_each_once():
    # Ten rows, four lookups each: thirty of forty hit.
    reuse = uniform_reuse(10, 40)
    shares = hit_shares(np.array([reuse.rows]), np.array([reuse.lookups]), np.array([10.0]))
    assert shares[0] == pytest.approx(1 - reuse.num_rows / 40)
    none = hit_shares(np.array([reuse.rows]), np.array([reuse.lookups]), np.array([0.0]))
    assert none[0] == 0


def test_forward_bytes_of_one_table_are_those_of_the_formula():
    # Without reuse: 4 bags x (s(8 x 8) + 32 + 64 + s(256)) + 32 lookups x s(256).
    lookup = EmbeddingLookup(10**9, 64, 4, 8.0)
    traffic = forward_traffic(embedding_columns([lookup]), np.array([1000.0]))
    assert traffic.memory_bytes[0] == pytest.approx(4 * (64 + 96 + 256) + 32 * 256, rel=1e-4)


def test_an_optimizer_with_more_state_moves_more():
    columns = embedding_columns([EmbeddingLookup(10**6, 64, 1024, 8.0)])
    moved = [
        backward_traffic(columns, name).memory_bytes[0] for name in ("sgd", "rowwise_adagrad", "adagrad")
    ]
    assert moved == sorted(moved)
    assert moved[0] < moved[2]


def test_popular_rows_are_cheaper_on_a_gpu():
    lookup = EmbeddingLookup(10**6, 128, 2048, 20.0)
    popular = replace(lookup, reuse=zipf_reuse(10**6, 40_960, 1.1))
    for phase in PHASES:
        assert price_lookups(V100, [popular], phase).seconds < price_lookups(V100, [lookup], phase).seconds


@pytest.mark.parametrize("dim", [16, 64, 256])
def test_without_reuse_no_lookup_beats_the_memory(dim: int):
    lookup = EmbeddingLookup(4 * 10**7, dim, 4096, 4.0)
    least = lookup.num_lookups * lookup.row_bytes / V100.device.memory_bytes_per_second
    assert price_lookups(V100, [lookup], "forward").seconds > least * 0.99
    assert price_lookups(V100, [lookup], "backward").seconds > 2 * least * 0.99


@both
def test_no_tables_take_no_time(pricer: EmbeddingPricer):
    for phase in PHASES:
        empty = pricer.table_vectors(embedding_columns([]), phase).sum(axis=0)[None, :]
        assert pricer.device_seconds(empty, phase).tolist() == [0.0]


@both
@settings(max_examples=20, deadline=None)
@given(tables=st.lists(lookups, min_size=2, max_size=4))
def test_the_order_of_tables_does_not_matter(pricer: EmbeddingPricer, tables: list[EmbeddingLookup]):
    for phase in PHASES:
        prices = [
            price_lookups(pricer, list(order), phase).seconds for order in itertools.permutations(tables)
        ]
        assert prices == pytest.approx([prices[0]] * len(prices), rel=1e-12)


@both
@settings(max_examples=20, deadline=None)
@given(tables=st.lists(lookups, min_size=1, max_size=3), more=lookups)
def test_another_table_never_makes_it_cheaper(
    pricer: EmbeddingPricer, tables: list[EmbeddingLookup], more: EmbeddingLookup
):
    for phase in PHASES:
        before, after = (price_lookups(pricer, some, phase) for some in (tables, [*tables, more]))
        assert 0 < before.seconds <= after.seconds
        assert before.seconds_low <= before.seconds <= before.seconds_high


@settings(max_examples=30, deadline=None)
@given(lookup=lookups)
def test_more_lookups_never_cost_less_on_a_gpu(lookup: EmbeddingLookup):
    twice = replace(lookup, pooling=2 * lookup.pooling)
    for phase in PHASES:
        assert price_lookups(V100, [lookup], phase).seconds <= price_lookups(V100, [twice], phase).seconds * (
            1 + 1e-9
        )


def test_eight_times_the_samples_take_longer_on_a_processor():
    for pooling, rows, phase in itertools.product((2.0, 16.0), (10**3, 10**6), PHASES):
        small, large = (EmbeddingLookup(rows, 64, batch, pooling) for batch in (256, 2048))
        assert price_lookups(CPU, [small], phase).seconds < price_lookups(CPU, [large], phase).seconds


def test_a_device_that_was_never_measured_has_a_wider_interval():
    b200 = HeuristicEmbeddingPricer(load_device("b200"), "sgd")
    assert b200.relative_spread > V100.relative_spread
    assert CPU.relative_spread > LearnedEmbeddingPricer(CPU.weights, is_measured_here=True).relative_spread


def test_tiny_lookups_take_what_kernels_take_to_launch():
    tiny = EmbeddingLookup(1000, 16, 16, 1.0)
    assert price_lookups(V100, [tiny], "forward").seconds == pytest.approx(10.5e-6, rel=0.02)
    assert price_lookups(V100, [tiny], "backward").seconds == pytest.approx(107e-6, rel=0.02)


def test_unknown_words_are_refused():
    with pytest.raises(UnknownNameError, match="phase"):
        price_lookups(V100, [EmbeddingLookup(10, 8, 4, 1.0)], "sideways")
    with pytest.raises(UnknownNameError, match="optimizer"):
        HeuristicEmbeddingPricer(V100.device, "lion")
    with pytest.raises(PlanError, match="processor"):
        HeuristicEmbeddingPricer(replace(V100.device, vendor="cpu"))


def test_the_busiest_rank_sets_the_collective():
    # Rank 0 sends 100 to each of two others, and gets nothing: 200, as 300 among three even ranks.
    sent = np.array([[7, 100, 100], [0, 7, 0], [0, 0, 7]])
    assert message_bytes(all_to_all_operation(sent, (0, 1, 2))) == 300
