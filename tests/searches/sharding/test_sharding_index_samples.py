import numpy as np
import polars
import pytest

from made_up_sharding import table
from perfcast.errors import InputError
from perfcast.searches.sharding.inputs.index_samples import apply_samples, load_samples

INDICES = np.array([5, 5, 7, 5, 2], dtype=np.int64)
OFFSETS = np.array([0, 2, 2])  # bags of 2, 0 and 3


def saved(tmp_path, **arrays):
    path = tmp_path / "day.npz"
    np.savez(path, **arrays)
    return path


def npz(tmp_path):
    return saved(tmp_path, **{"a.indices": INDICES, "a.offsets": OFFSETS})


def parquet(tmp_path):
    path = tmp_path / "day.parquet"
    frame = polars.DataFrame({"table": ["a"] * 5, "bag": [0, 0, 2, 2, 2], "index": INDICES.tolist()})
    frame.write_parquet(path)
    return path


@pytest.mark.parametrize("write", [npz, parquet])
def test_pooling_and_reuse_are_counted(tmp_path, write):
    counted, other = apply_samples((table("a"), table("b")), load_samples(write(tmp_path)))
    assert counted.pooling == pytest.approx(5 / 3)
    assert counted.pooling_deviation == pytest.approx(np.std([2, 0, 3]))
    assert counted.reuse.rows[:3] == (2.0, 0.0, 1.0)  # two rows once, one row three times
    assert counted.reuse.lookups[:3] == (2.0, 0.0, 3.0)
    assert other == table("b")


def test_offsets_may_carry_the_last_end(tmp_path):
    path = saved(tmp_path, **{"a.indices": INDICES, "a.offsets": np.append(OFFSETS, 5)})
    assert load_samples(path)["a"][1].tolist() == [2, 0, 3]


def test_a_table_without_lookups_has_none(tmp_path):
    path = saved(
        tmp_path, **{"a.indices": np.zeros(0, dtype=np.int64), "a.offsets": np.zeros(4, dtype=np.int64)}
    )
    counted = apply_samples((table("a"),), load_samples(path))[0]
    assert counted.pooling == 0
    assert counted.reuse is None


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"a.indices": INDICES}, "no a.offsets"),
        ({"a": INDICES}, "neither NAME.indices nor NAME.offsets"),
        ({"a.indices": INDICES.astype(float), "a.offsets": OFFSETS}, "whole numbers, not float64"),
        ({"a.indices": INDICES[None], "a.offsets": OFFSETS}, "one row"),
        ({"a.indices": INDICES, "a.offsets": np.array([0, 3, 2])}, "offsets rise from 0"),
        ({"a.indices": INDICES, "a.offsets": np.array([1, 3])}, "offsets rise from 0"),
        ({"a.indices": INDICES, "a.offsets": np.array([0, 9])}, "at most 5"),
        ({"a.indices": INDICES, "a.offsets": np.array([0, -1])}, "offsets rise from 0"),
        ({"a.indices": np.array([{"x": 1}]), "a.offsets": OFFSETS}, "no archive of arrays"),
    ],
)
def test_arrays_that_are_no_bags_of_indices_say_why(tmp_path, arrays, said):
    with pytest.raises(InputError, match=said):
        load_samples(saved(tmp_path, **arrays))


@pytest.mark.parametrize("bad", [1000, -1])
def test_an_index_beyond_its_table_is_named(tmp_path, bad):
    path = saved(tmp_path, **{"a.indices": np.array([3, bad]), "a.offsets": np.array([0])})
    with pytest.raises(InputError, match=f"'a': {bad} is no row of its 1,000"):
        apply_samples((table("a"),), load_samples(path))


def test_indices_of_an_unknown_table_are_refused(tmp_path):
    with pytest.raises(InputError, match="'a', which is not among the tables"):
        apply_samples((table("b"),), load_samples(npz(tmp_path)))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.npz", b"PK\x03\x04 cut off", "no archive of arrays"),
        ("x.npz", b"", "no archive of arrays"),
        ("x.parquet", b"PAR1 cut off", "is no such table"),
        ("x.pkl", b"", "read from .npz or .parquet"),
    ],
)
def test_a_broken_file_says_so(tmp_path, name, content, said):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_samples(path)


@pytest.mark.parametrize(
    "columns",
    [
        {"table": ["a"], "bag": [-1], "index": [0]},
        {"table": ["a"], "bag": [0], "index": [None]},
        {"table": ["a"], "bag": [2**60], "index": [0]},
        {"table": ["a"], "bag": [0]},
        {"table": ["a"], "bag": ["x"], "index": [0]},
    ],
)
def test_rows_that_are_no_lookups_are_refused(tmp_path, columns):
    path = tmp_path / "x.parquet"
    polars.DataFrame(columns).write_parquet(path)
    with pytest.raises(InputError):
        load_samples(path)
