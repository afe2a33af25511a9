"""Models by name: shapes only, never weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from perfcast.catalogs.figures import collect_aliases, load_entries, parse_entries, resolve_name
from perfcast.errors import CatalogError
from perfcast.figures import Figure, parse_figure

TASKS = ("causal-lm", "masked-lm", "seq2seq-lm", "image-classification", "recommendation")


@dataclass(frozen=True)
class ModelEntry:
    """A model of the catalog.

    Attributes:
        architecture: Class that builds it: one of transformers, or 'DLRM'.
        config: The architecture's configuration, shapes only.
        like: Another model whose configuration it has, but for what ``config`` states; '' of none.
        sequence_length: The default; None where sequences mean nothing.
        parameters: The published count.
    """

    name: str
    title: str
    family: str
    architecture: str
    task: str
    source: str
    note: str
    aliases: tuple[str, ...]
    sequence_length: Figure | None
    parameters: Figure
    config: Mapping[str, Any]
    like: str = ""


def load_model(name: str) -> ModelEntry:
    """A model by name or alias.

    Raises:
        UnknownNameError: Not in the catalog; lists close names.
    """
    entries = load_models()
    hint = (
        "See 'perfcast catalog models'; a config.json, its folder, timm:NAME, FILE.py:FUNCTION are taken too."
    )
    return entries[resolve_name("model", name, entries, _aliases(), hint)]


@cache
def load_models() -> Mapping[str, ModelEntry]:
    """All models of the catalog, checked, in the order of the files."""
    stated = load_entries("models", "model", _parse_model_file)
    return MappingProxyType({name: _complete(entry, stated) for name, entry in stated.items()})


@cache
def _aliases() -> Mapping[str, str]:
    return collect_aliases({key: entry.aliases for key, entry in load_models().items()})


def _complete(entry: ModelEntry, others: Mapping[str, ModelEntry]) -> ModelEntry:
    """With the configuration of the model that it is like: another checkpoint of the same sizes."""
    if not entry.like:
        return entry
    if entry.like not in others or others[entry.like].like:
        raise CatalogError(f"{entry.name} is like {entry.like!r}, which states no configuration of its own")
    config = {**others[entry.like].config, **entry.config}
    return replace(entry, config=MappingProxyType(config))


def _parse_model_file(path: Path) -> dict[str, ModelEntry]:
    return parse_entries(path, "models", _parse_model)


def _parse_model(name: str, table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> ModelEntry:
    for key in ("title", "family", "architecture", "task", "source", "parameters", "config"):
        if key not in table:
            raise CatalogError(f"{where}: {key} missing")
    if table["task"] not in TASKS:
        raise CatalogError(f"{where}: unknown task {table['task']!r}; known: {', '.join(TASKS)}")
    if table["source"] not in sources:
        raise CatalogError(f"{where}: source {table['source']!r} is not in the file's [sources]")
    length = table.get("sequence_length")
    return ModelEntry(
        name=name,
        title=table["title"],
        family=table["family"],
        architecture=table["architecture"],
        task=table["task"],
        source=sources[table["source"]],
        note=table.get("note", ""),
        aliases=tuple(table.get("aliases", ())),
        sequence_length=None if length is None else parse_figure(length, sources, f"{where}.sequence_length"),
        parameters=parse_figure(table["parameters"], sources, f"{where}.parameters"),
        config=MappingProxyType(table["config"]),
        like=table.get("like", ""),
    )
