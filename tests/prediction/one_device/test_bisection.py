"""The answer is always the true one; where need grows evenly, it takes four measurements."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.core.forecast.largest import Probe
from perfcast.errors import ModelError
from perfcast.prediction.one_device.bisection import Bisection

CAPACITY = 1000


def search(
    need: Callable[[int], int], bound: int = 10**6, first: int = 1, second: int = 2, takes: int = 10**9
) -> tuple[Bisection, list[int]]:
    tried: list[int] = []

    def measure(size: int) -> Probe:
        tried.append(size)
        if size > takes:
            raise ModelError(f"size {size} is beyond {takes}")
        return Probe(size, need(size), need(size), need(size) <= CAPACITY)

    bisection = Bisection(measure, CAPACITY, first, bound)
    bisection.run(second, lambda probe: None)
    return bisection, tried


def test_even_growth_takes_four_measurements_of_which_two_prove_the_answer() -> None:
    bisection, tried = search(lambda n: 100 + 7 * n)  # 128.57 sizes fit
    assert bisection.largest == 128
    assert tried == [1, 2, 128, 129]
    assert bisection.is_complete


def test_nothing_fits_if_the_first_does_not() -> None:
    bisection, tried = search(lambda n: 2000)
    assert (bisection.largest, bisection.is_complete, tried) == (None, True, [1])


def test_only_the_first_fits() -> None:
    bisection, tried = search(lambda n: 900 * n)
    assert (bisection.largest, tried) == (1, [1, 2])


def test_a_size_that_the_model_refuses_ends_the_search_and_says_why() -> None:
    bisection, tried = search(lambda n: n // 100, second=512, takes=512)
    assert bisection.largest == 512
    assert 513 in tried
    assert bisection.limit == "size 513 is beyond 512"
    assert len(tried) <= 4


def test_a_model_that_does_not_take_the_first_size_is_an_error() -> None:
    with pytest.raises(ModelError):
        search(lambda n: n, takes=0)


def test_a_need_that_never_reaches_the_capacity_ends_at_the_bound() -> None:
    bisection, tried = search(lambda n: 5, bound=1000)
    assert bisection.largest == 1000
    assert len(tried) < 8


def test_what_is_known_before_the_end_is_the_largest_that_fitted() -> None:
    def measure(size: int) -> Probe:
        if size > 2:
            raise KeyboardInterrupt
        return Probe(size, size, size, True)

    bisection = Bisection(measure, CAPACITY, 1, 10**6)
    with pytest.raises(KeyboardInterrupt):
        bisection.run(2, lambda probe: None)
    assert (bisection.largest, bisection.is_complete) == (2, False)


@settings(max_examples=200, deadline=None)
@given(
    base=st.integers(0, 1200),
    steps=st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 900)), max_size=4),
    slope=st.integers(0, 20),
    power=st.sampled_from([0.5, 1.0, 2.0]),
    second=st.integers(1, 5000),
    takes=st.integers(1, 5000),
)
def test_the_answer_is_that_of_trying_every_size(
    base: int, steps: list[tuple[int, int]], slope: int, power: float, second: int, takes: int
) -> None:
    def need(n: int) -> int:
        return base + int(slope * n**power) + sum(jump for start, jump in steps if n >= start)

    bound = 4000
    bisection, tried = search(need, bound=bound, second=second, takes=takes)
    fitting = [n for n in range(1, min(bound, takes) + 1) if need(n) <= CAPACITY]
    assert bisection.largest == (fitting[-1] if fitting else None)
    assert len(tried) == len(set(tried))
    assert len(tried) <= 60


def test_an_allocator_that_wastes_a_tenth_costs_few_tries_more() -> None:
    def measure(size: int) -> Probe:
        tensors = 100 + 7 * size
        needed = round(1.1 * tensors) + size % 3
        return Probe(size, tensors, needed, needed <= CAPACITY)

    bisection = Bisection(measure, CAPACITY, 1, 10**6)
    bisection.run(2, lambda probe: None)
    assert bisection.largest == 115  # 1.1 · 905 + 1 = 996.5; at 116 it is 1003 + 2
    assert len(bisection.probes) <= 6


def test_memory_that_is_given_back_under_pressure_does_not_mislead_the_search() -> None:
    """Beyond 900 bytes of tensors the cache is emptied: what is needed stays below the capacity until 990."""

    def measure(size: int) -> Probe:
        tensors = 4 * size
        needed = round(1.1 * tensors)
        if tensors <= 990:
            needed = min(needed, CAPACITY - size % 5)
        return Probe(size, tensors, needed, needed <= CAPACITY)

    bisection = Bisection(measure, CAPACITY, 1, 10**6)
    bisection.run(2, lambda probe: None)
    assert bisection.largest == 247
    assert len(bisection.probes) <= 12
