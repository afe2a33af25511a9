"""Text that a terminal can show."""

from __future__ import annotations

import io

import pytest

from perfcast.printer.text import PLAINLY, visible, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 12 µs → 3 %", "plain text, 12 µs → 3 %"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwritten\x08", "over\\rwritten\\x08"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb\u2066c\u061c", "a\\u202eb\\u2066c\\u061c"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("\u2028end", "\\u2028end"),
        ("not UTF-8: \udcff", "not UTF-8: \\udcff"),
        ("नमस्\u200dते", "नमस्\u200dते"),
    ],
)
def test_what_commands_a_terminal_is_written_out(text: str, shown: str):
    assert visible(text) == shown
    assert visible(visible(text)) == shown


def test_a_line_stays_one_line():
    assert visible_line("a\nerror: made up") == "a\\nerror: made up"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_written_as_near_as_it_can_be(encoding: str):
    stream = io.TextIOWrapper(io.BytesIO(), encoding, PLAINLY)
    stream.write("6 ≥ 5 → … 語")
    stream.flush()
    assert stream.buffer.getvalue() == b"6 >= 5 -> ... \\u8a9e"  # type: ignore[attr-defined]
