"""Trained predictors on disk: one archive of arrays per net, and a record of how they were trained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfcast.cost.profile import data_folder
from perfcast.errors import InputError
from perfcast.files.looking import path_exists
from perfcast.files.reading import read_json
from perfcast.files.writing import write_text_atomically
from perfcast.published.comparison import print_part
from perfcast.published.nets.archive import Archive, read_archive, write_archive

RECORD = "predictor.json"


def predictor_folder(name: str, seed: int, vendor: str = "nvidia", left_out: tuple[str, ...] = ()) -> Path:
    """Where a training writes unless told otherwise: in the user's data folder, one folder per protocol."""
    parts = [name, *([] if vendor == "nvidia" else [vendor]), f"seed{seed}"]
    parts += [f"without-{device}" for device in sorted(left_out)]
    return data_folder() / "predictors" / "-".join(parts)


def write_predictor(
    folder: Path, name: str, archives: Mapping[str, Archive], record: Mapping[str, Any]
) -> None:
    """Write the archives, then the record, which makes the predictor complete.

    Raises:
        InputError: The folder cannot be written.
    """
    for part, archive in archives.items():
        write_archive(folder / f"{part}.npz", archive)
    text = json.dumps({"predictor": name, **record}, indent=1) + "\n"
    write_text_atomically(folder / RECORD, text, updates=True)


def read_record(folder: Path, name: str) -> dict[str, Any]:
    """The record of a trained predictor.

    Raises:
        InputError: The folder holds no finished training of this predictor.
    """
    train = f"perfcast train {name} --data DIR"
    if not path_exists(folder / RECORD):
        raise InputError(f"{folder}: {name} is not trained; run `{train}`")
    record = read_json(folder / RECORD, what="the record of a training")
    if not isinstance(record, dict) or record.get("predictor") != name:
        raise InputError(f"{folder}: holds another predictor than {name}; run `{train}`")
    return record


def read_part(folder: Path, part: str) -> Archive:
    """One net's archive.

    Raises:
        InputError: It is missing or broken.
    """
    return read_archive(folder / f"{part}.npz")


if __name__ == "__main__":
    print_part("nets.store", "habitat", "nets")
