"""Files of measurements: which are known, and how they are read."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl
import pytest

from perfcast.errors import InputError
from perfcast.evidence.dataset.measurements import READERS
from perfcast.evidence.dataset.table import (
    KINDS,
    UNSUPPORTED_KINDS,
    RawTable,
    kind_of,
    read_frame,
    read_tables,
)

GEMM_CSV = "dtype,m,n,k,vllm_ms\nbfloat16,1,2,3,0.5\n"


@pytest.mark.parametrize(
    ("stem", "kind"),
    [
        ("gemm_h100_sxm", "gemm"),
        ("gemm", "gemm"),
        ("gemmini", None),
        ("moe_b300_sxm", "moe"),
        ("moe_dispatch_combine_alltoall", "moe_dispatch_combine_alltoall"),
        ("attention_context_gb300", "attention_context"),
        ("mla_bmm", "mla_bmm"),
        ("linear_test", "linear"),
        ("vidur_mlp_ops_fp16", "vidur_mlp_ops"),
        ("steps", None),
    ],
)
def test_the_kind_is_the_longest_that_the_stem_begins_with(stem: str, kind: str | None):
    assert kind_of(stem) == kind


def test_every_kind_has_a_reader_or_is_said_to_have_none():
    assert READERS.keys() == set(KINDS)
    assert not READERS.keys() & set(UNSUPPORTED_KINDS)


def test_the_rest_of_the_stem_names_the_device():
    assert RawTable("gemm_rtx_pro_6000", Path("x"), pl.DataFrame()).named_device == "rtx_pro_6000"
    assert RawTable("mla_context", Path("x"), pl.DataFrame()).named_device == ""


def test_all_three_formats_are_read_and_other_files_passed_over(tmp_path: Path):
    (tmp_path / "gemm_a.csv").write_text(GEMM_CSV)
    (tmp_path / "gemm_b.csv.gz").write_bytes(gzip.compress(GEMM_CSV.encode()))
    read_frame(tmp_path / "gemm_a.csv").write_parquet(tmp_path / "gemm_c.parquet")
    (tmp_path / "notes.csv").write_text("a\n1\n")
    (tmp_path / "gemm_d.txt").write_text(GEMM_CSV)
    tables = list(read_tables(tmp_path))
    assert [t.stem for t in tables] == ["gemm_a", "gemm_b", "gemm_c"]
    assert all(t.frame.rows() == [("bfloat16", 1, 2, 3, 0.5)] for t in tables)
    assert [t.stem for t in read_tables(tmp_path, lambda stem: stem.endswith("b"))] == ["gemm_b"]


def test_a_late_row_of_another_type_does_not_stop_the_reading(tmp_path: Path):
    (tmp_path / "gemm_a.csv").write_text("m\n" + "1\n" * 10_050 + "1.5\nmany\n")
    frame = next(read_tables(tmp_path)).frame
    assert frame.height == 10_052
    assert frame["m"][-1] == "many"


def test_a_folder_without_a_known_table_is_one_clear_error(tmp_path: Path):
    (tmp_path / "notes.csv").write_text("a\n1\n")
    with pytest.raises(InputError, match="holds no table of measurements that is known"):
        list(read_tables(tmp_path))


def test_a_missing_folder_is_one_clear_error(tmp_path: Path):
    with pytest.raises(InputError, match="is not a folder"):
        list(read_tables(tmp_path / "nowhere"))


def test_two_files_for_one_table_are_refused_rather_than_counted_twice(tmp_path: Path):
    (tmp_path / "gemm_a.csv").write_text(GEMM_CSV)
    (tmp_path / "gemm_a.csv.gz").write_bytes(gzip.compress(GEMM_CSV.encode()))
    with pytest.raises(InputError, match=r"both gemm_a\.csv and gemm_a\.csv\.gz"):
        list(read_tables(tmp_path))


@pytest.mark.parametrize("name", ["gemm_a.parquet", "gemm_a.csv.gz", "gemm_a.csv"])
def test_a_broken_or_empty_file_is_named(tmp_path: Path, name: str):
    content = {"gemm_a.parquet": b"nothing", "gemm_a.csv.gz": b"\x1f\x8bnothing", "gemm_a.csv": b""}
    (tmp_path / name).write_bytes(content[name])
    with pytest.raises(InputError, match=f"cannot read .*{name}"):
        list(read_tables(tmp_path))
