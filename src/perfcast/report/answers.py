"""Results as JSON: what is written, and the schemas of it, follow from typed answers alone.

An answer is a frozen dataclass: its fields are the keys, its docstring describes them. Each kind of result
has one (``SUBJECTS``), made by a ``data_of`` of ``data``, so that no layout is described a second time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from importlib import import_module
from inspect import cleandoc
from itertools import pairwise
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, cast

from perfcast.errors import UnknownNameError
from perfcast.report.origin import OriginData
from perfcast.version import perfcast_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import TypeAdapter

SCHEMA_VERSION: Literal["1"] = "1"
#: Significant digits of figures: those that vector units and libraries of any processor agree on.
STABLE_DIGITS = 12

#: Verb, and kind of result where it has several → module of ``data`` and class of its answer.
SUBJECTS = {
    "predict": ("step", "StepData"),
    "predict-plan": ("plan_step", "PlanStepData"),
    "predict-recommender": ("recommender", "RecommenderData"),
    "memory": ("memory", "MemoryData"),
    "memory-plan": ("plan_memory", "PlanMemoryData"),
    "search": ("search.training", "SearchData"),
    "search-serving": ("search.serving", "ServingSearchData"),
    "search-deployments": ("search.deployments", "DeploymentSearchData"),
    "search-sweep": ("search.sweep", "SweepData"),
    "trace-info": ("traces.recordings", "TraceFilesData"),
    "trace-record": ("traces.recordings", "RecordingData"),
    "trace-link": ("traces.recordings", "TraceLinksData"),
    "trace-explain": ("traces.explained", "ExplanationData"),
    "trace-forecast": ("traces.forecast", "TraceForecastData"),
    "trace-chakra": ("traces.chakra", "ChakraData"),
    "scale": ("scale", "ScaleData"),
    "scale-serve": ("batches", "BatchesData"),
    "scale-limits": ("limits", "LimitsData"),
    "serving": ("serving.forecast", "ServingData"),
    "serving-sweep": ("serving.sweep", "ServingSweepData"),
    "mesh-cost": ("collectives", "CollectiveSweepData"),
    "replay": ("replay", "ReplayData"),
    "shard": ("shard", "ShardData"),
    "explain-result": ("explained_result", "ExplainedResultData"),
}

Answer_ = TypeVar("Answer_")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What every answer begins with.

    Attributes:
        schema_version: Version of this format; no unit.
        perfcast_version: Version of the program that wrote it; no unit.
        origin: What decides the figures beside that; null where an answer is not a file's.
    """

    #: No other keys.
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    #: The path to the rows of its table (see ``frames``); '' where its figures are one row.
    table: ClassVar[str] = ""

    schema_version: Literal["1"] = SCHEMA_VERSION
    perfcast_version: str = field(default_factory=perfcast_version)
    origin: OriginData | None = None


def view(kind: type[Answer_], source: object, /, **given: Any) -> Answer_:
    """An answer whose fields are the attributes of ``source`` by the same name, but for those given."""
    inherited = {one.name for one in fields(Answer)}
    names = [one.name for one in fields(kind) if one.name not in inherited]  # type: ignore[arg-type]
    return kind(**{name: given[name] if name in given else getattr(source, name) for name in names})


def to_plain(answer: object) -> Any:
    """An answer in the types that JSON has; what has them already stays as it is."""
    if not is_dataclass(answer):
        return answer
    adapter = _adapter(cast("type", type(answer)))
    data: dict[str, Any] = adapter.dump_python(answer, mode="json")
    return data


def versioned(plain: object, origin: OriginData | None = None) -> object:
    """Plain data with the format's and the program's versions, where no typed answer states them."""
    if not isinstance(plain, dict) or "schema_version" in plain:
        return plain
    return {
        "schema_version": SCHEMA_VERSION,
        "perfcast_version": perfcast_version(),
        "origin": to_plain(origin),
        **plain,
    }


def write_plain(data: object, *, indent: int | None = 2, is_exact: bool = False) -> str:
    """JSON text of plain data, with a line's end.

    Args:
        indent: Blanks of a level; None writes one line, a third as long.
        is_exact: Whether numbers keep every digit, as what programs read back must; else those that are the
            same on every processor.

    Raises:
        ValueError: A number is not finite.
    """
    if indent is None or is_exact:
        written = data if is_exact else _with_stable_digits(data)
        return json.dumps(written, indent=indent, allow_nan=False) + "\n"
    return _indented(data, "\n", " " * indent) + "\n"


def _with_stable_digits(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{STABLE_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _with_stable_digits(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_stable_digits(item) for item in value]
    return value


def _indented(value: object, line: str, step: str) -> str:
    """As ``json.dumps`` writes it with stable digits, several times as fast as its encoder with an indent.

    Args:
        line: A line's end and the blanks of this level.
        step: Blanks of a level.
    """
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    if isinstance(value, float):
        return _written(value)
    if isinstance(value, Mapping):
        inner = line + step
        rows = [f"{_key(key)}: {_indented(item, inner, step)}" for key, item in value.items()]
        return f"{{{inner}{f',{inner}'.join(rows)}{line}}}" if rows else "{}"
    if isinstance(value, list | tuple):
        inner = line + step
        rows = [_indented(item, inner, step) for item in value]
        return f"[{inner}{f',{inner}'.join(rows)}{line}]" if rows else "[]"
    return json.dumps(value, allow_nan=False)


def _written(value: float) -> str:
    stable = float(f"{value:.{STABLE_DIGITS}g}")
    if not math.isfinite(stable):
        raise ValueError(f"Out of range float values are not JSON compliant: {value}")
    return float.__repr__(stable)


def _key(key: object) -> str:
    if isinstance(key, str):
        return encode_basestring_ascii(key)
    return json.dumps({key: 0})[1:-4]  # numbers and flags become texts


def finite_or_none(value: float) -> float | None:
    """What JSON has no number for is null."""
    return value if math.isfinite(value) else None


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def schema_of(subject: str) -> dict[str, Any]:
    """The JSON schema of a subject's answers.

    Raises:
        UnknownNameError: There is no such subject.
    """
    if subject not in SUBJECTS:
        raise UnknownNameError("answer", subject, SUBJECTS, f"Known: {', '.join(SUBJECTS)}.")
    module, name = SUBJECTS[subject]
    return answer_schema(getattr(import_module(f"perfcast.report.data.{module}"), name))


def answer_schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a type of answers, its keys described by the 'Attributes:' of its docstring."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= _adapter(kind).json_schema(mode="serialization")
    inherited = read_attributes(Answer.__doc__ or "")[1]
    for part in (schema, *schema.get("$defs", {}).values()):
        text, described = read_attributes(part.get("description", ""))
        if text:
            part["description"] = text
        if "properties" in part:
            part["required"] = list(part["properties"])
        for name, entry in part.get("properties", {}).items():
            entry.pop("title", None)
            entry.pop("default", None)
            description = described.get(name) or inherited.get(name)
            if description:
                entry["description"] = description
    return schema


def read_attributes(docstring: str) -> tuple[str, dict[str, str]]:
    """A docstring without its 'Attributes:', and what these say of each name."""
    text, _, listed = cleandoc(docstring).partition("Attributes:\n")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", "\n" + listed.partition("\n\n")[0]):
        names, colon, description = entry.strip().partition(": ")
        if colon:
            found |= dict.fromkeys(names.split(", "), " ".join(description.split()))
    return " ".join(text.split()), found


def downsample_indices(values: Sequence[int], limit: int, keep: int) -> list[int]:
    """Indices of at most ``limit`` values, ascending: the largest of each equal run, ``keep`` always."""
    if len(values) <= limit:
        return list(range(len(values)))
    bounds = [bucket * len(values) // limit for bucket in range(limit + 1)]
    return [
        keep if start <= keep < stop else max(range(start, stop), key=values.__getitem__)
        for start, stop in pairwise(bounds)
    ]
