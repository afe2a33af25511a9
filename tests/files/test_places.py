"""Two names of one file are one place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perfcast.errors import InputError
from perfcast.files.places import check_places, identity


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text("{}")
    (tmp_path / "link.json").symlink_to(path)
    os.link(path, tmp_path / "hard.json")
    (tmp_path / "folder").mkdir()
    (tmp_path / "around").symlink_to(tmp_path)
    return path


@pytest.mark.parametrize("name", ["link.json", "hard.json", "folder/../config.json", "around/hard.json"])
def test_a_file_is_known_by_every_name(config: Path, name: str):
    assert identity(config) & identity(config.parent / name)


def test_files_with_equal_texts_are_two(config: Path):
    (config.parent / "other.json").write_text("{}")
    assert not identity(config) & identity(config.parent / "other.json")


@pytest.mark.parametrize("said", ["{}", "gpt2,{}", "{}:8", "{}:function", "learned={}", "file:{}"])
@pytest.mark.parametrize("name", ["config.json", "link.json", "hard.json"])
def test_no_output_is_an_input(config: Path, said: str, name: str):
    with pytest.raises(InputError, match="which is read; name another file"):
        check_places([("--json", str(config.parent / name))], [said.format(config)])


def test_outputs_apart_from_inputs_and_from_each_other_are_fine(config: Path):
    folder = config.parent
    check_places([("--json", "-"), ("--html", f"{folder}/new.html")], [str(config), "gpt2", str(folder)])
    check_places([("--json", os.devnull), ("--html", os.devnull)], [os.devnull], is_text_shown=True)


@pytest.mark.parametrize(
    ("first", "second"),
    [("z", "z"), ("z", "./z"), ("z", "around/z"), ("config.json", "hard.json"), ("-", "-")],
)
def test_one_place_holds_one_document(config: Path, monkeypatch, first: str, second: str):
    monkeypatch.chdir(config.parent)
    with pytest.raises(InputError, match="--json goes there too, and one place holds one document"):
        check_places([("--json", first), ("--html", second)], [])
