"""Rectangles in proportion, pictures of rows, thinned lines, room of text."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfcast.report.figure import Heatmap
from perfcast.report.svg.curves import _stepped, _thin
from perfcast.report.svg.heat import colour_of, png_row
from perfcast.report.svg.text import Box, cut_text, text_width, wrap_text
from perfcast.report.svg.treemap import grid, squarify

BOX = Box(10.0, 20.0, 410.0, 320.0)


@given(st.lists(st.floats(0.01, 1e3), min_size=1, max_size=20))
def test_rectangles_are_in_proportion_inside_and_apart(values: list[float]) -> None:
    values.sort(reverse=True)
    boxes = squarify(values, BOX)
    areas = [(box.right - box.left) * (box.bottom - box.top) for box in boxes]
    whole = (BOX.right - BOX.left) * (BOX.bottom - BOX.top)
    assert areas == pytest.approx([whole * value / sum(values) for value in values], rel=1e-6)
    grown = Box(BOX.left - 1e-6, BOX.top - 1e-6, BOX.right + 1e-6, BOX.bottom + 1e-6)
    assert all(box.is_inside(grown) for box in boxes)


def test_equal_values_are_laid_out_near_to_squares() -> None:
    for box in squarify([1.0] * 12, BOX):
        assert 0.7 < (box.right - box.left) / (box.bottom - box.top) < 1.4


@pytest.mark.parametrize("count", [1, 7, 8, 64])
def test_equal_boxes_stand_in_rows_in_reading_order(count: int) -> None:
    boxes = grid(count, BOX)
    assert [(box.top, box.left) for box in boxes] == sorted((box.top, box.left) for box in boxes)
    assert len({round(box.right - box.left, 6) for box in boxes}) == 1
    assert all(box.is_inside(Box(9.9, 19.9, 410.1, 320.1)) for box in boxes)


def test_a_row_of_colours_is_a_picture_one_pixel_high() -> None:
    data = png_row([(1, 2, 3), None])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    start = data.index(b"IDAT")
    length = int.from_bytes(data[start - 4 : start], "big")
    pixels = zlib.decompress(data[start + 4 : start + 4 + length])
    assert pixels == b"\0" + bytes((1, 2, 3, 255, 0, 0, 0, 0))


def test_colours_go_evenly_from_one_to_the_next() -> None:
    heat = Heatmap(values=(), colours=((0.0, "#000000"), (0.5, "#640000"), (1.0, "#6400c8")))
    assert colour_of(heat, 0.25, 0.0, 1.0) == (50, 0, 0)
    assert colour_of(heat, 1.5, 0.0, 1.0) == (100, 0, 200)


def test_a_long_line_keeps_its_ends_and_its_extremes() -> None:
    points = [(index / 100, float((index * 37) % 101)) for index in range(10_000)]
    kept = _thin(points)
    assert len(kept) < 500
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert {min(y for _, y in kept), max(y for _, y in kept)} == {0.0, 100.0}


def test_a_step_has_corners_where_it_changes_and_none_elsewhere() -> None:
    points = [(0.0, 1.0), (1.0, 1.0), (2.0, 5.0), (3.0, 5.0)]
    assert _stepped(points, True) == [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0), (3.0, 5.0)]


@given(st.text("abcdef ghi_-1234", min_size=1, max_size=80), st.floats(10, 400))
def test_text_that_is_cut_has_room_and_says_that_it_is(text: str, room: float) -> None:
    cut = cut_text(text, room)
    assert text_width(cut) <= room
    assert cut == text or cut == "" or cut.endswith("…")


def test_words_are_folded_where_the_room_ends() -> None:
    assert wrap_text("one two three", text_width("one two")) == ["one two", "three"]
    assert text_width("0000") == pytest.approx(4 * 0.64 * 12)
