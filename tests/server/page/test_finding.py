"""What of a document holds certain words."""

from __future__ import annotations

import pytest

from perfcast.report.document import Column, Document, Note, Section, Table

pytest.importorskip("nicegui", reason="the page needs perfcast[web]")
from perfcast.server.page.finding import find_in

DEVICES = Table(columns=(Column("Device"), Column("error")), rows=(("H100", "8"), ("A100", "9")))
OTHER = Table(title="Memory", columns=(Column("n"),), rows=(("3",),))
PAGE = Document(
    title="Accuracy",
    blocks=(
        Section(title="Kernels", blocks=(Note("words"), DEVICES)),
        Section(title="More", blocks=(OTHER,)),
        Note("end"),
    ),
)


def test_rows_that_hold_all_words_stay():
    section, end = find_in(PAGE, "h100 error").blocks
    assert end == Note("end")
    assert isinstance(section, Section)
    assert section.blocks[0] == Note("words")
    table = section.blocks[1]
    assert isinstance(table, Table)
    assert table.rows == (("H100", "8"),)


def test_what_is_called_so_stays_whole():
    assert find_in(PAGE, "kernels").blocks[0] == PAGE.blocks[0]
    assert find_in(PAGE, "memory").blocks[0] == PAGE.blocks[1]


def test_nothing_said_finds_everything_and_nothing_found_leaves_what_is_always_said():
    assert find_in(PAGE, "  ") is PAGE
    assert find_in(PAGE, "tpu").blocks == (Note("end"),)
