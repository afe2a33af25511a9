"""A closed form and a graph, small enough to be compared by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from perfcast.core.forecast.device import AliveTensors, MemoryForecast
from perfcast.core.forecast.footprint import PeakCandidate, Term
from perfcast.core.tensor import Category
from perfcast.memory_use.compare import blocks_of, compare_with_liveness

A, P, T = Category.ACTIVATION, Category.PARAMETER, Category.TEMPORARY


def term(name: str, category: str, num_bytes: int, formula: str = "") -> Term:
    return Term(name, category, num_bytes, formula, "by hand")


def alive(
    num_bytes: int, count: int, category: str, operation: str = "mm", at: str = "a.py:1"
) -> AliveTensors:
    return AliveTensors(num_bytes, count, category, operation, "layers.0–1", at)


def forecast(*groups: AliveTensors) -> MemoryForecast:
    total = sum(group.total_bytes for group in groups)
    return MemoryForecast(
        peak_bytes=total, peak_by_last_use_bytes=total, peak_node=0, peak_operation="mul", peak_module="mlp",
        peak_phase="backward", bytes_by_category={}, timeline_bytes=(total,), timeline_bytes_by_category={},
        intervals=(), capacity_bytes=0, alive_at_peak=groups,
    )  # fmt: skip


def test_terms_take_blocks_of_their_sizes_and_nothing_differs():
    moment = PeakCandidate("loss", (term("inputs", A, 2 * 32, "2 · (4·8)"), term("weights", P, 100)))
    comparison = compare_with_liveness(moment, forecast(alive(32, 2, A), alive(60, 1, P), alive(40, 1, P)))
    assert comparison.differences == ()
    assert (comparison.closed_form_bytes, comparison.graph_bytes, comparison.relative_error) == (164, 164, 0)


def test_a_term_that_the_graph_does_not_hold_is_named():
    moment = PeakCandidate("loss", (term("masks", A, 24, "3 · (8·1)"),))
    (row,) = compare_with_liveness(moment, forecast(alive(8, 1, A))).differences
    assert (row.name, row.closed_form_bytes, row.graph_bytes, row.difference_bytes) == ("masks", 24, 8, 16)


def test_a_block_that_the_closed_form_does_not_know_is_named_by_its_line():
    groups = (alive(8, 1, A), alive(7, 2, A, "silu", "model.py:12 in MLP.forward"))
    moment = PeakCandidate("loss", (term("masks", A, 8, "1 · (8·1)"),))
    (row,) = compare_with_liveness(moment, forecast(*groups)).differences
    assert (row.name, row.closed_form_bytes, row.graph_bytes) == ("silu at model.py:12 in MLP.forward", 0, 14)


def test_a_term_without_blocks_stands_for_what_is_left_of_its_category():
    moment = PeakCandidate("layer", (term("gradients of activations", T, 50),))
    comparison = compare_with_liveness(moment, forecast(alive(30, 1, T), alive(10, 1, T)))
    assert [(r.closed_form_bytes, r.graph_bytes) for r in comparison.rows] == [(50, 40)]
    assert comparison.relative_error == pytest.approx(0.25)


def test_categories_are_never_mixed():
    moment = PeakCandidate("layer", (term("kept", A, 8, "1 · (8·1)"),))
    rows = compare_with_liveness(moment, forecast(alive(8, 1, T))).rows
    assert [(r.category, r.closed_form_bytes, r.graph_bytes) for r in rows] == [(A, 8, 0), (T, 0, 8)]


def test_rows_sum_to_both_peaks():
    moment = PeakCandidate("m", (term("a", A, 64, "2 · (4·8)"), term("b", A, 9, "1 · (9)"), term("c", T, 5)))
    memory = forecast(alive(32, 3, A), alive(6, 2, T), alive(1, 1, P))
    comparison = compare_with_liveness(moment, memory)
    assert (comparison.closed_form_bytes, comparison.graph_bytes) == (moment.num_bytes, memory.peak_bytes)


def test_the_largest_difference_comes_first():
    moment = PeakCandidate("m", (term("small", A, 8, "1 · (8)"), term("large", A, 80, "1 · (80)")))
    assert [row.name for row in compare_with_liveness(moment, forecast()).differences] == ["large", "small"]


@pytest.mark.parametrize(
    ("formula", "blocks"),
    [
        ("2 · (4·8)", {32: 2}),
        ("1 · (3) + 2 · (5·2)", {3: 1, 10: 2}),
        ("2·4·8", None),
        ("1 · (3) and more", None),
    ],
)
def test_formulas_that_count_blocks_are_read(formula: str, blocks: dict[int, int] | None):
    assert blocks_of(term("t", A, 0, formula)) == (None if blocks is None else Counter(blocks))
