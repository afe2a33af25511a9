"""Figures as files: SVG that is well formed, PNG with ink on it."""

from __future__ import annotations

import struct
import zlib
from xml.etree import ElementTree

import pytest

from builders import small_forecast
from perfcast.errors import InputError, UnknownNameError
from perfcast.report.document import Document, list_figures
from perfcast.report.documents.step.device import document_of
from perfcast.report.figure import Axis, Figure, Heatmap
from perfcast.report.pictures import PicturePlace, draw_picture, parse_picture

SVG = "{http://www.w3.org/2000/svg}"


def picture(path: str, figure: str = "") -> bytes:
    return draw_picture(document_of(small_forecast("a<b")), PicturePlace(path, figure))


def test_a_drawing_holds_all_figures_under_their_headings() -> None:
    root = ElementTree.fromstring(picture("a.svg"))
    texts = [element.text for element in root.findall(f"{SVG}text")]
    assert texts[:2] == ["a<b on NVIDIA H100 SXM", "Time by phase"]
    drawn = root.findall(f"{SVG}svg")
    assert len(drawn) == len(list_figures(document_of(small_forecast())))
    ends = [float(one.get("y", 0)) + float(one.get("height", 0)) for one in drawn]
    starts = [float(one.get("y", 0)) for one in drawn]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))
    assert float(root.get("height", 0)) >= ends[-1]


def test_one_figure_is_asked_for_by_its_name() -> None:
    assert parse_picture("folder/out.svg:roofline") == PicturePlace("folder/out.svg", "roofline")
    assert len(ElementTree.fromstring(picture("a.svg", "roofline")).findall(f"{SVG}svg")) == 1
    with pytest.raises(UnknownNameError, match="Did you mean roofline"):
        picture("a.svg", "rooflin")


def test_a_png_is_twice_as_large_and_not_blank() -> None:
    pytest.importorskip("resvg_py")
    data = picture("a.png", "phases")
    assert data.startswith(b"\x89PNG")
    width, _ = struct.unpack(">II", data[16:24])
    assert width == 2 * 1048
    assert len(set(zlib.compress(data))) > 200


def test_other_endings_and_answers_without_figures_are_refused() -> None:
    with pytest.raises(InputError, match=r"ends in \.svg or \.png"):
        parse_picture("out.pdf")
    with pytest.raises(InputError, match="no figures"):
        draw_picture(Document(title="t"), PicturePlace("a.svg"))


def test_a_png_without_a_font_is_an_error_not_a_picture_without_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("resvg_py")
    monkeypatch.setattr("perfcast.report.pictures._FONTS", ("No Such Font At All",))
    monkeypatch.setattr("perfcast.report.pictures._draws", lambda family: False)
    with pytest.raises(InputError, match="fonts-dejavu-core"):
        picture("a.png", "phases")


def test_cells_that_are_many_keep_their_edges_in_a_png() -> None:
    pytest.importorskip("resvg_py")
    values = tuple(tuple(float((row + column) % 2) for column in range(40)) for row in range(40))
    names = tuple(map(str, range(40)))
    heat = Heatmap(values=values, columns=names, rows=names, colours=((0.0, "#000000"), (1.0, "#ffffff")))
    figure = Figure(
        name="heat",
        series=(heat,),
        height=400,
        x=Axis(scale="category", is_visible=False),
        y=Axis(scale="category"),
    )
    data = draw_picture(Document(title="", blocks=(figure,)), PicturePlace("a.png"))
    start, pixels = 8, b""
    while start < len(data):
        length = int.from_bytes(data[start : start + 4], "big")
        if data[start + 4 : start + 8] == b"IDAT":
            pixels += data[start + 8 : start + 8 + length]
        start += 12 + length
    assert len(zlib.decompress(pixels)) > 1e6
    assert len(data) < 60_000  # smoothed cells would be shades that take far more
