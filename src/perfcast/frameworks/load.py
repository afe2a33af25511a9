"""Profiles of frameworks from their data files, checked against the fields of the types.

A field that is a number is a figure with unit and source; flags and words stand as they are, under the
``source`` of their table. A file with ``like`` says only how it differs from another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from perfcast.core.formats import FORMATS
from perfcast.core.kernel import KernelFamily
from perfcast.core.plan import RecomputeModule
from perfcast.core.training import Training
from perfcast.errors import CatalogError, PlanError, UnknownNameError
from perfcast.figures import parse_figure, parse_source, parse_table, parse_text, parse_texts, parse_toml
from perfcast.frameworks.profile import (
    FrameworkProfile,
    FusedAllReduce,
    HostProfile,
    InferenceProfile,
    KernelProfile,
    MemoryProfile,
    SelectiveRecompute,
    StepTokens,
    SupportProfile,
    TrainingProfile,
)
from perfcast.ranges import excerpt

_Part = TypeVar("_Part", MemoryProfile, KernelProfile, HostProfile, SupportProfile)
_COMPILED = ("kernels_compiled", "memory_compiled")
_TRAINING = ("training", "memory", "memory_in_fp16", "kernels", "host", "support", *_COMPILED)
_TABLES = (*_TRAINING, "inference", "serving", "sources")
_SHARED = ("vocabulary_multiple", "balances_stages", "selective", "sums_whole_gradients_in_pipelines")
#: Beside them, where a program has them, lists of modules.
_MODULES = ("recompute_modules", "always_recomputes")
_TEXTS = ("title", "like")
#: Flags of inference; off where they are not said.
_SERVING_FLAGS = (
    "attends_in_cache_format", "fuses_quantisation", "attention_rotates", "experts_route", "reads_peers",
    "gathers_tokens", "sends_beyond_choices", "gathers_narrow",
)  # fmt: skip
#: Fields that count or number what a program offers; they have the source of their table.
_COUNTS = ("least_prefetched", "most_prefetched", "flash_version")


@cache
def framework_names() -> tuple[str, ...]:
    """All frameworks that have a profile, sorted."""
    return tuple(sorted(path.stem for path in profile_folder().glob("*.toml")))


def profile_folder() -> Path:
    """Where the data files are."""
    return Path(str(resources.files("perfcast.frameworks") / "data"))


@cache
def load_framework(name: str) -> FrameworkProfile:
    """The profile of a framework.

    Raises:
        UnknownNameError: There is none of this name.
    """
    return parse_framework(profile_folder() / f"{_known(name, framework_names())}.toml")


@cache
def load_training_profile(framework: str) -> TrainingProfile:
    """What a framework does when it trains.

    Raises:
        UnknownNameError: No framework of this name trains.
    """
    found = load_framework(framework).training if framework in framework_names() else None
    if found is None:
        names = [name for name in framework_names() if load_framework(name).training is not None]
        raise UnknownNameError("framework", framework, names, f"Known: {', '.join(names)}.")
    return found


def training_profile_of(training: Training) -> TrainingProfile:
    """What the framework of a training does, compiled where that is asked for.

    Raises:
        PlanError: It has nothing to compile.
    """
    profile = load_training_profile(training.framework)
    if not training.compiles or profile.memory is None:
        return profile
    if profile.compiled is None:
        raise PlanError(f"--compile: {training.framework} runs kernels that are fused as they are")
    return profile.compiled


@cache
def load_inference_profiles() -> Mapping[str, InferenceProfile]:
    """What is known of frameworks in inference, by name."""
    profiles = {name: load_framework(name).inference for name in framework_names()}
    return MappingProxyType({name: profile for name, profile in profiles.items() if profile is not None})


def parse_framework(path: Path) -> FrameworkProfile:
    """The profile of a data file, checked; ``like`` names another file of the same folder.

    Raises:
        CatalogError: A table, flag or figure is missing or unknown, or a figure without unit or source.
    """
    content = _content(path)
    sources, name = parse_table(content, "sources", path.name), path.stem
    unknown = sorted(content.keys() - {*_TABLES, *_TEXTS})
    if unknown or not isinstance(content.get("title"), str):
        raise CatalogError(f"{path.name}: {f'unknown: {unknown[0]}' if unknown else 'title missing'}")
    return FrameworkProfile(
        name=name,
        title=content["title"],
        like=parse_text(content, "like", path.name, ""),
        training=_training(content, sources, path.name) if "training" in content else None,
        inference=_inference(parse_table(content, "inference", path.name), sources, path.name)
        if "inference" in content
        else None,
    )


def _content(path: Path) -> dict[str, Any]:
    """A file's content, over that of the file that it is like; what only serves is not taken over."""
    own = parse_toml(path)
    if "like" not in own:
        return own
    base = _content(path.with_name(f"{_known(parse_text(own, 'like', path.name), framework_names())}.toml"))
    return _merged({key: base[key] for key in (*_TRAINING, "sources") if key in base}, own)


def _merged(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    def joined(key: str) -> Any:
        if key not in own:
            return base[key]
        is_table = isinstance(own[key], Mapping) and "value" not in own[key]
        return _merged(parse_table(base, key, "like"), own[key]) if is_table else own[key]

    return {key: joined(key) for key in (*base, *(key for key in own if key not in base))}


def _training(content: Mapping[str, Any], sources: Mapping[str, str], where: str) -> TrainingProfile:
    def part(key: str, kind: type[_Part]) -> _Part:
        return _parse_part(kind, parse_table(content, key, where), sources, f"{where}: [{key}]")

    def modules(key: str, usual: tuple[RecomputeModule, ...]) -> tuple[RecomputeModule, ...]:
        named = parse_texts(shared, key, where) if key in shared else usual
        return tuple(_word(each, RecomputeModule, f"{where}: {key}") for each in named)

    shared = parse_table(content, "training", where)
    if shared.keys() - set(_MODULES) != set(_SHARED):
        raise CatalogError(f"{where}: [training] has {', '.join(_SHARED)}")
    multiple = parse_figure(shared["vocabulary_multiple"], sources, f"{where}: vocabulary_multiple").si_value
    narrow = _merged(*(parse_table(content, key, where) for key in ("memory", "memory_in_fp16")))
    profile = TrainingProfile(
        vocabulary_multiple=int(multiple),
        balances_stages=shared["balances_stages"],
        selective=_word(shared["selective"], SelectiveRecompute, f"{where}: selective"),
        sums_whole_gradients_in_pipelines=shared["sums_whole_gradients_in_pipelines"],
        recompute_modules=modules("recompute_modules", ("core_attn",)),
        always_recomputes=modules("always_recomputes", ()),
        kernels=part("kernels", KernelProfile),
        host=part("host", HostProfile),
        support=part("support", SupportProfile),
        memory=part("memory", MemoryProfile) if "memory" in content else None,
        memory_in_fp16=_parse_part(MemoryProfile, narrow, sources, f"{where}: [memory_in_fp16]")
        if "memory_in_fp16" in content
        else None,
    )
    if not all(key in content for key in _COMPILED):
        return profile
    kernels, memory = (
        _merged(*(parse_table(content, name, where) for name in (key.partition("_")[0], key)))
        for key in _COMPILED
    )
    compiled = replace(
        profile,
        kernels=_parse_part(KernelProfile, kernels, sources, f"{where}: [kernels_compiled]"),
        memory=_parse_part(MemoryProfile, memory, sources, f"{where}: [memory_compiled]"),
    )
    return replace(profile, compiled=compiled)


def _parse_part(kind: type[_Part], table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> _Part:
    """The dataclass of a table: every field that has no default must be there, and no other."""
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}
    for key in sorted(table.keys() - known.keys()):
        raise CatalogError(f"{where}: unknown key {key}")
    for name, field in known.items():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if name not in table and not has_default:
            raise CatalogError(f"{where}: {name} missing")
    return kind(**{key: _parse_value(key, value, hints[key], sources, where) for key, value in table.items()})


def _parse_value(name: str, value: Any, hint: Any, sources: Mapping[str, str], where: str) -> Any:
    if name == "source":
        return parse_source(value, sources, where)
    if name in _COUNTS:
        return _checked(value, int, f"{where} {name}")
    if hint in (int, float):
        return hint(parse_figure(value, sources, f"{where} {name}").si_value)
    if hint is bool:
        return _checked(value, bool, f"{where} {name}")
    if isinstance(value, Mapping):
        return MappingProxyType(dict(value))
    if get_origin(hint) is tuple:
        items = _checked(value, list, f"{where} {name}")
        return tuple(_word(each, get_args(hint)[0], f"{where} {name}") for each in items)
    return _word(value, hint, f"{where} {name}")


def _word(value: Any, hint: Any, where: str) -> Any:
    """A word of those that the type has, or any value of a plain type."""
    if get_origin(hint) is not Literal:
        return _checked(value, hint, where)
    if not isinstance(value, str) or value not in get_args(hint):
        raise CatalogError(f"{where}: {excerpt(value)} is none of {', '.join(get_args(hint))}")
    return value


def _checked(value: Any, kind: type, where: str) -> Any:
    if type(value) is not kind:
        raise CatalogError(f"{where}: {excerpt(value)} is no {kind.__name__}")
    return value


def _tables(rows: Any, where: str) -> list[Mapping[str, Any]]:
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise CatalogError(f"{where}: expected a list of tables, found {excerpt(rows)}")
    return rows


def _flag(table: Mapping[str, Any], name: str, where: str) -> bool:
    """One that is off where it is not said."""
    return bool(_checked(table.get(name, False), bool, f"{where}: {name}"))


def _formats(names: tuple[str, ...], where: str) -> tuple[str, ...]:
    for name in names:
        if name not in FORMATS:
            raise CatalogError(f"{where}: {name} is no format; known: {', '.join(FORMATS)}")
    return names


def _inference(table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> InferenceProfile:
    families = {family.value: family for family in KernelFamily}
    kernels = parse_table(table, "kernels", where)
    for name in sorted(kernels.keys() - families.keys()):
        raise CatalogError(f"{where}: {name} is no family of kernels; known: {', '.join(families)}")
    return InferenceProfile(
        kernels=MappingProxyType({families[name]: word for name, word in kernels.items()}),
        replays_graphs=_checked(table.get("replays_graphs"), bool, f"{where}: replays_graphs"),
        narrow_caches=_formats(parse_texts(table, "narrow_caches", where), f"{where}: narrow_caches"),
        **{name: _flag(table, name, where) for name in _SERVING_FLAGS},
        fused_all_reduces=_fused_all_reduces(table.get("fused_all_reduces", []), sources, where),
        tokens_beside_shared=_tokens_beside_shared(table, sources, where),
        step_tokens=_step_tokens(table.get("steps", []), sources, f"{where}: [inference.steps]"),
        source=parse_source(table.get("source"), sources, f"{where}: [inference]"),
    )


def _tokens_beside_shared(table: Mapping[str, Any], sources: Mapping[str, str], where: str) -> int:
    stated = table.get("tokens_beside_shared")
    if stated is None:
        return 0
    return int(parse_figure(stated, sources, f"{where}: tokens_beside_shared").si_value)


def _fused_all_reduces(rows: Any, sources: Mapping[str, str], where: str) -> tuple[FusedAllReduce, ...]:
    """Rows of ``[[inference.fused_all_reduces]]``, by rising ranks."""
    where = f"{where}: [inference.fused_all_reduces]"
    found = tuple(
        FusedAllReduce(
            architecture=_checked(row.get("architecture", ""), str, f"{where} architecture"),
            ranks=int(parse_figure(row.get("ranks"), sources, f"{where} ranks").si_value),
            largest_bytes=parse_figure(row.get("largest"), sources, f"{where} largest").si_value,
        )
        for row in _tables(rows, where)
    )
    by_architecture = [(row.architecture, row.ranks) for row in found]
    if by_architecture != sorted(by_architecture):
        raise CatalogError(f"{where}: rows must stand by architecture and rising ranks")
    return found


def _step_tokens(rows: Any, sources: Mapping[str, str], where: str) -> tuple[StepTokens, ...]:
    """Rows of ``[[inference.steps]]``, by rising memory."""
    found = tuple(
        StepTokens(
            least_memory_bytes=parse_figure(
                row.get("least_memory"), sources, f"{where} least_memory"
            ).si_value,
            tokens=int(parse_figure(row.get("tokens"), sources, f"{where} tokens").si_value),
            but_not=_checked(row.get("but_not", ""), str, f"{where} but_not"),
        )
        for row in _tables(rows, where)
    )
    least = [row.least_memory_bytes for row in found]
    if least != sorted(least):
        raise CatalogError(f"{where}: rows must stand by rising least_memory")
    return found


def _known(name: str, names: tuple[str, ...]) -> str:
    if name not in names:
        raise UnknownNameError("framework", name, names, f"Known: {', '.join(names)}.")
    return name
