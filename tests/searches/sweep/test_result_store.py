"""What the store of a sweep keeps, and what it refuses."""

from dataclasses import replace

import polars as pl
import pytest

from perfcast.errors import InputError, ModelError, PlanError
from perfcast.files.lock import StoreWarning
from perfcast.searches.sweep.cells import Cell, SweepJob, key_cells
from perfcast.searches.sweep.store import open_store, search_part, write_table


def open_nothing(settings):
    return lambda cell: []


JOB = SweepJob(open_nothing, {"seconds": float, "tp": int}, {}, {"perfcast": "1"})
CELLS = [Cell("m", "c:8", batch, 1024) for batch in (1, 2, 3)]
KEYS = key_cells(JOB, CELLS)


def two_rows(cell):
    return [{"seconds": 1.0 * cell.global_batch_size, "tp": 1}, {"seconds": 9.0, "tp": None}]


def part(index, search=two_rows):
    return search_part(search, JOB, [KEYS[index]], [CELLS[index]])


def test_rows_come_back_in_the_order_asked_for_whatever_the_order_kept(tmp_path):
    with open_store(tmp_path, JOB) as store:
        for index in (2, 0, 1):
            store.add([KEYS[index]], part(index))
        table = store.read(KEYS)
        second = store.read([KEYS[1]])
    assert second.rows() == [
        ("m", "c:8", 2, 1024, 1, "", 2.0, 1),
        ("m", "c:8", 2, 1024, 2, "", 9.0, None),
    ]
    assert table["global_batch_size"].to_list() == [1, 1, 2, 2, 3, 3]
    assert table["place"].to_list() == [1, 2] * 3
    assert table.schema["tp"] == pl.Int64


def test_a_second_opening_knows_what_the_first_kept(tmp_path):
    with open_store(tmp_path, JOB) as store:
        store.add(KEYS[:1], part(0))
    with open_store(tmp_path, JOB) as store:
        assert store.finished == {KEYS[0]}


def test_a_cell_without_a_plan_is_finished_and_says_why(tmp_path):
    def none(cell):
        raise PlanError("no plan fits 80 GB")

    with open_store(tmp_path, JOB) as store:
        store.add(KEYS[:1], part(0, none))
        store.add(KEYS[1:2], part(1, lambda cell: []))
        rows = store.read(KEYS[:2]).select("place", "outcome", "seconds").rows()
    assert rows == [(0, "no plan fits 80 GB", None), (0, "nothing found", None)]


def test_cells_kept_twice_count_once(tmp_path):
    with open_store(tmp_path, JOB) as store:
        store.add(KEYS[:1], part(0))
        store.add(KEYS[:2], search_part(two_rows, JOB, KEYS[:2], CELLS[:2]))
        assert store.read(KEYS[:2])["place"].to_list() == [1, 2, 1, 2]


def test_jobs_do_not_see_each_others_cells(tmp_path):
    with open_store(tmp_path, JOB) as store:
        store.add(KEYS[:1], part(0))
    with open_store(tmp_path, replace(JOB, versions={"perfcast": "2"})) as store:
        assert not store.finished


def test_an_unfinished_cell_cannot_be_read(tmp_path):
    with open_store(tmp_path, JOB) as store, pytest.raises(KeyError, match="3 cells are not finished"):
        store.read(KEYS)


def test_no_cells_make_an_empty_table(tmp_path):
    with open_store(tmp_path, JOB) as store:
        assert store.read([]).columns == [
            "model", "cluster", "global_batch_size", "sequence_length", "place", "outcome", "seconds", "tp",
        ]  # fmt: skip


def test_another_sweep_may_not_write_at_the_same_time(tmp_path):
    with (
        open_store(tmp_path, JOB),
        pytest.raises(
            InputError, match="is being written by this process already; wait for it, or name another"
        ),
        open_store(tmp_path, JOB),
    ):
        pass
    with open_store(tmp_path, JOB):
        pass


def test_half_written_files_of_a_killed_run_are_removed(tmp_path):
    with open_store(tmp_path, JOB) as store:
        left_behind = store.folder / ".perfcast-0123456789ab.tmp"
        left_behind.write_bytes(part(0)[:10])
    with open_store(tmp_path, JOB) as store:
        assert not left_behind.exists()
        assert not store.finished


def cut_off(data: bytes) -> bytes:
    return data[:-7]


def one_bit_flipped(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 1]) + data[41:]


@pytest.mark.parametrize("damage", [cut_off, one_bit_flipped])
def test_a_damaged_part_is_named_and_set_aside_and_its_cells_are_computed_again(tmp_path, damage):
    with open_store(tmp_path, JOB) as store:
        store.add(KEYS[:1], part(0))
        store.add(KEYS[1:2], part(1))
        file = min(store.folder.glob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    said = r"\.parquet: .* kept as .*\.parquet\.damaged, and its cells are computed again"
    with pytest.warns(StoreWarning, match=said), open_store(tmp_path, JOB) as store:
        assert len(store.finished) == 1
    assert file.with_name(f"{file.name}.damaged").read_bytes() == damage(whole)
    with open_store(tmp_path, JOB) as store:
        for i in (0, 1):
            store.add(KEYS[i : i + 1], part(i))
    with open_store(tmp_path, JOB) as store:
        assert store.finished == set(KEYS[:2])


def test_a_part_that_was_written_before_its_checksum_counts(tmp_path):
    with open_store(tmp_path, JOB) as store:
        store.add(KEYS[:1], part(0))
        (store.folder / "parts.jsonl").unlink()  # as a kill between the two, or an older version, leaves it
    for _ in range(2):
        with open_store(tmp_path, JOB) as store:
            assert store.finished == {KEYS[0]}
            assert len(store.parts.records) == 1


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"), open_store(tmp_path / "file", JOB):
        pass


def test_a_failing_part_leaves_nothing(tmp_path):
    def wrong(cell):
        raise ModelError("no such model")

    with pytest.raises(InputError, match="m on c:8, batch 1, sequence 1024: no such model"):
        part(0, wrong)


@pytest.mark.parametrize("row", [{"seconds": 1.0}, {"seconds": 1.0, "tp": 1, "pp": 1}])
def test_a_row_of_other_columns_is_a_fault_of_the_search(row):
    with pytest.raises(ValueError, match="the job says"):
        part(0, lambda cell: [row])


def test_a_value_of_another_type_is_a_fault_of_the_search():
    with pytest.raises((TypeError, pl.exceptions.PolarsError)):
        part(0, lambda cell: [{"seconds": 1.0, "tp": "eight"}])


def test_a_search_may_not_take_the_sweeps_own_columns():
    job = replace(JOB, columns={"model": str})
    with pytest.raises(ValueError, match="'model'"):
        search_part(two_rows, job, KEYS[:1], CELLS[:1])


def test_equal_tables_give_equal_bytes():
    assert part(0) == part(0)
    table = pl.DataFrame({"a": [1.0, None]})
    assert write_table(table) == write_table(table.clone())
