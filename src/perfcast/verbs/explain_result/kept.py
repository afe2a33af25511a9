"""A result as its file holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from perfcast.errors import InputError
from perfcast.files.reading import read_json
from perfcast.report.origin import InputData, OriginData


@dataclass(frozen=True, slots=True)
class KeptResult:
    """What perfcast wrote.

    Attributes:
        file: That holds it.
        plain: All of it.
        version: Of the perfcast that wrote it.
        origin: What decided its figures.
    """

    file: str
    plain: Mapping[str, Any]
    version: str
    origin: OriginData

    def words(self, key: str) -> tuple[str, ...]:
        """A list of texts of the result; none where it has none such."""
        found = self.plain.get(key)
        return tuple(str(one) for one in found) if isinstance(found, list) else ()


def read_result(path: str | Path) -> KeptResult:
    """A result that ``--json`` or ``to_json`` wrote.

    Raises:
        InputError: It cannot be read, is no result of perfcast, or does not say where it comes from.
    """
    plain = read_json(path, what="a result of perfcast")
    if not isinstance(plain, dict) or not {"schema_version", "perfcast_version"} <= plain.keys():
        raise InputError(f"{path}: no result of perfcast; name a file that --json wrote")
    origin = plain.get("origin")
    if not isinstance(origin, dict):
        raise InputError(
            f"{path}: it does not say where it comes from, as perfcast {plain['perfcast_version']} wrote it; "
            "ask again, and keep that result"
        )
    return KeptResult(str(path), plain, str(plain["perfcast_version"]), _origin(path, origin))


def _origin(path: str | Path, plain: Mapping[str, Any]) -> OriginData:
    known = {one.name for one in fields(OriginData)}
    if plain.keys() != known or not _is_well_formed(plain):
        raise InputError(f"{path}: its origin was changed, or is of another version of perfcast")
    inputs = tuple(InputData(**one) for one in plain["inputs"])
    return OriginData(**{**plain, "inputs": inputs})


def _is_well_formed(plain: Mapping[str, Any]) -> bool:
    kinds = {
        "verb": str, "question": dict | None, "command": str, "catalog_sha256": str, "weights_sha256": str,
        "measurements_sha256": str | None, "libraries": dict, "inputs": list,
    }  # fmt: skip
    of_inputs = {"path": str, "num_bytes": int, "sha256": str}
    are_texts = isinstance(plain["libraries"], dict) and all(
        isinstance(text, str) for text in plain["libraries"].values()
    )
    return (
        all(isinstance(plain[key], kind) for key, kind in kinds.items())
        and are_texts
        and all(
            isinstance(one, dict)
            and one.keys() == of_inputs.keys()
            and all(isinstance(one[key], kind) for key, kind in of_inputs.items())
            for one in plain["inputs"]
        )
    )
