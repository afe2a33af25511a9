"""The published table of reuse histograms."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.evidence.dataset.embedding import read_locality

_BINS = ["(0,1]"] + [f"({2 ** (k - 1)},{2**k}]" for k in range(1, 16)]


def _write(path: Path, rows: list[float], lookups: list[float], name: str = "x_t2_bs64.pt") -> Path:
    head = f"2021,{name},1,64"
    lines = ["year,dataset,batches,batch_size,stat,bin,value"]
    lines += [
        f"{head},Avg # of indices,,300",
        f"{head},Avg # of unique cols,,200",
        f"{head},Avg col size,,1.5",
    ]
    for shares in (rows, lookups):
        lines += [
            f'{head},reuse_histogram_fraction,"{bin_}",{share}'
            for bin_, share in zip(_BINS, shares, strict=True)
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_one_table_has_an_equal_part_of_all(tmp_path: Path):
    # Half of 200 rows once, half twice: 100 + 200 lookups; two tables.
    path = _write(tmp_path / "a.csv", [0.5, 0.5] + [0.0] * 14, [1 / 3, 2 / 3] + [0.0] * 14)
    (shard,) = read_locality(path)
    assert (shard.num_tables, shard.batch_size, shard.num_lookups, shard.num_rows) == (2, 64, 300, 200)
    reuse = shard.of_one_table()
    assert reuse.rows[:3] == pytest.approx((50, 50, 0))
    assert reuse.lookups[:3] == pytest.approx((50, 100, 0))


def test_shares_that_are_missing_are_beyond_the_last_bin(tmp_path: Path):
    path = _write(tmp_path / "a.csv", [1.0] + [0.0] * 15, [0.5] + [0.0] * 15)
    reuse = read_locality(path)[0].of_one_table()
    assert reuse.lookups[-1] == pytest.approx(75)
    assert 0 < reuse.rows[-1] < 1


@pytest.mark.parametrize("content", ["", "a,b\n1,2\n", "\x00\x01"])
def test_another_file_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "a.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"a\.csv"):
        read_locality(path)


def test_a_shard_without_a_number_of_tables_is_refused(tmp_path: Path):
    path = _write(tmp_path / "a.csv", [1.0] + [0.0] * 15, [1.0] + [0.0] * 15, name="x.pt")
    with pytest.raises(InputError, match=r"shard 'x\.pt' is not whole"):
        read_locality(path)
