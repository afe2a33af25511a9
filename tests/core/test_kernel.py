from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.core.kernel import (
    SIZES,
    WORDS,
    KernelFamily,
    KernelTable,
    build_kernel_table,
    encode_words,
    join_kernel_tables,
)

FAMILIES = list(KernelFamily)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.value)


def table(family: KernelFamily, count: int, first: float = 1.0) -> KernelTable:
    columns: dict[str, object] = {name: first + np.arange(count) for name in SIZES[family]}
    return build_kernel_table(family, count, **columns, **dict.fromkeys(WORDS[family], "word"))


def products(**changes: object) -> KernelTable:
    columns = {"batch": 1, "m": 2, "n": 3, "k": 4, "operation": "linear", "layout": "nn"}
    columns |= {"dtype": "bf16", "framework": "sglang"}
    return build_kernel_table(KernelFamily.PRODUCT, 2, **(columns | changes))


@every_family
def test_every_family_has_sizes_and_words_and_no_name_twice(family):
    names = (*SIZES[family], *WORDS[family])
    assert {"operation", "dtype", "framework"} <= set(WORDS[family])
    assert len(set(names)) == len(names)


@every_family
def test_a_table_holds_sizes_as_numbers_and_words_as_text(family):
    built = table(family, 3)
    assert len(built) == 3
    assert all(built.size(name).dtype == np.float64 for name in SIZES[family])
    assert all(built.word(name).tolist() == ["word"] * 3 for name in WORDS[family])


def test_a_single_value_is_repeated():
    assert products(m=7).size("m").tolist() == [7.0, 7.0]


def test_a_missing_column_is_named():
    columns = dict(products().columns)
    del columns["layout"]
    with pytest.raises(ValueError, match=r"product: columns differ by \['layout'\]"):
        KernelTable(KernelFamily.PRODUCT, columns)


def test_a_superfluous_column_is_named():
    with pytest.raises(ValueError, match=r"product: columns differ by \['colour'\]"):
        KernelTable(KernelFamily.PRODUCT, {**products().columns, "colour": np.zeros(2)})
    with pytest.raises(ValueError, match="product has no column colour"):
        products(colour=1)


def test_columns_of_different_length_are_an_error():
    with pytest.raises(ValueError, match="product: columns differ in length"):
        KernelTable(KernelFamily.PRODUCT, {**products().columns, "m": np.zeros(3)})


@given(numbers=st.lists(st.integers(0, 4), max_size=8))
def test_taking_rows_keeps_them_in_the_order_asked_for(numbers):
    taken = table(KernelFamily.ROWS, 5).take(np.array(numbers, dtype=np.int64))
    assert taken.size("num_rows").tolist() == [1.0 + number for number in numbers]


def test_taking_rows_of_a_cold_table_leaves_it_cold():
    cold = KernelTable(KernelFamily.PRODUCT, products().columns, is_cold=True)
    assert cold.take(np.array([True, False])).is_cold
    assert len(cold.take(np.array([True, False]))) == 1


@every_family
def test_joined_tables_stand_one_after_the_other(family):
    joined = join_kernel_tables([table(family, 2), table(family, 3, first=10.0)])
    assert joined.size(SIZES[family][0]).tolist() == [1, 2, 10, 11, 12]


def test_tables_of_two_families_do_not_join():
    with pytest.raises(ValueError, match=r"one family, found \['rows', 'scan'\]"):
        join_kernel_tables([table(KernelFamily.ROWS, 1), table(KernelFamily.SCAN, 1)])
    with pytest.raises(ValueError, match=r"one family, found \[\]"):
        join_kernel_tables([])


def test_a_cold_and_a_repeated_table_do_not_join():
    cold = KernelTable(KernelFamily.PRODUCT, products().columns, is_cold=True)
    with pytest.raises(ValueError, match="all cold or all not"):
        join_kernel_tables([cold, products()])


@given(words=st.lists(st.sampled_from(["b", "a", "", "c|d"])))
def test_encoded_words_decode_to_themselves_and_the_names_are_sorted(words):
    names, codes = encode_words(np.array(words, dtype=object))
    assert [names[code] for code in codes.tolist()] == words
    assert names == sorted(set(words))
    assert codes.shape == (len(words),)
