"""Published reuse histograms of the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.catalogs.reuse import load_reuse, load_reuse_entries, parse_reuse_file
from perfcast.errors import CatalogError, UnknownNameError

_GOOD = """
[sources]
paper = "a paper"
[reuse.mine]
title = "Mine"
source = "paper"
num_tables = 2
batch_size = 64
num_lookups = 300
num_rows = 200
row_fractions = [0.5, 0.5]
lookup_fractions = [0.333333, 0.666667]
"""


def test_every_histogram_has_a_source_and_the_published_mean_reuse():
    entries = load_reuse_entries()
    assert {"dlrm-2021", "dlrm-2022"} <= set(entries)
    assert all(entry.source for entry in entries.values())
    # 6.9 and 12.7 lookups a touched row, as published.
    for name, mean in (("dlrm-2021", 6.9), ("dlrm-2022", 12.7)):
        reuse = load_reuse(name).reuse
        assert reuse.num_lookups / reuse.num_rows == pytest.approx(mean, rel=0.02)


def test_an_unknown_name_lists_what_is_known():
    with pytest.raises(UnknownNameError, match="dlrm-2021"):
        load_reuse("dlrm-2020")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source = "paper"', 'source = "other"', "is not in the file's"),
        ("num_rows = 200\n", "", "num_rows missing"),
        ("num_tables = 2", "num_tables = 0", "not a whole number"),
        ("[0.5, 0.5]", "[0.9, 0.9]", "more than 1"),
    ],
)
def test_a_histogram_that_is_not_whole_is_refused(tmp_path: Path, old: str, new: str, message: str):
    path = tmp_path / "mine.toml"
    path.write_text(_GOOD, encoding="utf-8")
    assert parse_reuse_file(path)["mine"].reuse.num_rows == pytest.approx(100)
    path.write_text(_GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(CatalogError, match=message):
        parse_reuse_file(path)
