"""What serving frameworks accept, from the recorded table: commands by argparse, settings field by field."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

_TABLE = tomllib.loads((Path(__file__).parent / "serving_options.toml").read_text(encoding="utf-8"))
_KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool, "list": list}
_STUB = '#!/usr/bin/env bash\nprintf "%s\\0" "$(basename "$0")" "$@" > "$STUBS/$$"\n'
_PROGRAMS = ("vllm", "python", "trtllm-serve", "trtllm-llmapi-launch")


def parser_of(*names: str) -> argparse.ArgumentParser:
    """The parser of a framework, or of several tables together."""
    parser = argparse.ArgumentParser(allow_abbrev=False, exit_on_error=False)
    for name, row in (row for table in names for row in _TABLE[table].items()):
        if row["type"] == "switch":
            parser.add_argument(name, action="store_true")
        elif row["type"] == "both":
            parser.add_argument(name, action=argparse.BooleanOptionalAction)
        else:
            kind = json.loads if row["type"] == "json" else _KINDS[row["type"]]
            options = {key: row[key] for key in ("choices", "nargs") if key in row}
            repeats = {"action": "append"} if row.get("repeats") else {}
            parser.add_argument(name, type=kind, **options, **repeats)
    return parser


def check_settings(settings: Mapping[str, Any], table: str | Mapping[str, Any]) -> None:
    """Whether every field is known, of its type, and one of its choices.

    Raises:
        ValueError: One is not.
    """
    known = _TABLE[table] if isinstance(table, str) else table
    for name, value in settings.items():
        if name not in known:
            raise ValueError(f"unknown field {name}")
        row = known[name]
        if "type" not in row:
            if value is not None:
                check_settings(value, row)
            continue
        kind = _KINDS[row["type"]]
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{name} is {value!r}, no {row['type']}")
        if "choices" in row and value not in row["choices"]:
            raise ValueError(f"{name} is {value!r}, none of {row['choices']}")


def check_json_options(args: argparse.Namespace, table: str) -> None:
    """Whether options in JSON have known fields.

    Raises:
        ValueError: One has not.
    """
    for name, fields in _TABLE[table].items():
        value = getattr(args, name.removeprefix("--").replace("-", "_"))
        if value is not None:
            check_settings(value, fields)


def started(files: Mapping[str, str], script: str, folder: Path, **environment: str) -> list[list[str]]:
    """Programs with their arguments that a script starts, by stubs that write them down."""
    stubs, said = folder / "stubs", folder / "said"
    stubs.mkdir(exist_ok=True)
    said.mkdir(exist_ok=True)
    for old in said.iterdir():
        old.unlink()
    for name in _PROGRAMS:
        (stubs / name).write_text(_STUB, encoding="utf-8")
        (stubs / name).chmod(0o755)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    path = f"{stubs}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", str(folder / script)],
        check=True,
        cwd=folder,
        env={**os.environ, **environment, "PATH": path, "STUBS": str(said)},
    )
    lines = [one.read_text(encoding="utf-8").split("\0")[:-1] for one in said.iterdir()]
    return sorted(lines)


def read_yaml(files: Mapping[str, str], name: str) -> dict[str, Any]:
    """A file of settings."""
    read: dict[str, Any] = yaml.safe_load(files[name])
    return read
