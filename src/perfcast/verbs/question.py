"""What is asked, in a user's words: a frozen dataclass for each verb, whose fields are its options.

The same question comes from the command line, from keywords in Python, from JSON and from a page's address,
and is printed as each of them. None (False, an empty tuple) says nothing; what is then usual stands in the
field's metadata. Texts such as plans, times and lengths are read where the verb's request is built.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar, cast, get_args, get_origin

from perfcast.errors import InputError, QuestionError, UnknownNameError
from perfcast.ranges import Range
from perfcast.verbs.fields import FieldKind, read_value

Item = TypeVar("Item", str, int, float)
#: What a field may hold where nothing but plain data is at hand.
Plain = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | tuple[float, ...]

#: Verb → its room in ``verbs`` and its question.
_HOMES = {
    "predict": ("predict", "PredictQuestion"),
    "memory": ("memory", "MemoryQuestion"),
    "serving": ("serving", "ServingQuestion"),
    "search": ("search", "SearchQuestion"),
    "scale": ("scale", "ScaleQuestion"),
    "replay": ("replay", "ReplayQuestion"),
    "mesh cost": ("mesh_cost", "MeshCostQuestion"),
    "shard": ("shard", "ShardQuestion"),
    "trace info": ("trace_info", "TraceInfoQuestion"),
    "trace explain": ("trace_explain", "ExplainQuestion"),
    "trace forecast": ("trace_forecast", "TraceForecastQuestion"),
}
VERBS = tuple(_HOMES)

_FILE, _PLACE, _USUAL, _BOUNDS, _IN_PYTHON = "is_file", "is_place", "usual", "bounds", "is_in_python"
_AMOUNT = "is_amount"
#: Endings of files that options take.
_ENDINGS = (".json", ".toml", ".py", ".yaml", ".yml", ".csv", ".gz")
#: How a message names a field: by its own name, or as the option of the command line.
Spelling = Callable[[str], str]


def _plainly(name: str) -> str:
    return f"{name}:"


def usually(value: Plain, *, within: Range | None = None, is_place: bool = False) -> Mapping[str, object]:
    """Metadata of a field: what is taken where nothing is said.

    Args:
        within: What its numbers may be; every field of numbers has a range.
        is_place: As of ``PLACE``.
    """
    bounds = {} if within is None else {_BOUNDS: within}
    return MappingProxyType({_USUAL: value, _PLACE: is_place, **bounds})


def within(allowed: Range) -> Mapping[str, object]:
    """Metadata of a field: what its number, or each of its numbers, may be."""
    return MappingProxyType({_BOUNDS: allowed})


def between(smallest: float, largest: float, why: str = "") -> Mapping[str, object]:
    """Metadata of a field: the smallest and largest number that it takes."""
    return within(Range(smallest, largest, why))


#: Metadata of a field that names, or may name, a file of the machine.
FILE: Mapping[str, object] = MappingProxyType({_FILE: True})
#: Metadata of a field that is about nothing but the machine that answers: a folder, a file, what it starts.
PLACE: Mapping[str, object] = MappingProxyType({_PLACE: True})


def amount(allowed: Range) -> Mapping[str, object]:
    """Metadata of a field whose number may be written with a letter: '15T'."""
    return MappingProxyType({_AMOUNT: True, _BOUNDS: allowed})


#: Metadata of a field that Python alone can fill.
IN_PYTHON: Mapping[str, object] = MappingProxyType({_IN_PYTHON: True})


@dataclass(frozen=True, kw_only=True)
class Question:
    """What one verb is asked.

    Attributes:
        verb: Of the command line, such as 'mesh cost'.
        arguments: Fields that are written without their names, in order.
        written: Fields that name what is written, or what an earlier run has written.
        is_measured: Whether the answer is measured, so that no two are equal.
    """

    verb: ClassVar[str]
    arguments: ClassVar[tuple[str, ...]] = ()
    written: ClassVar[tuple[str, ...]] = ()
    is_measured: ClassVar[bool] = False

    @classmethod
    def arranged(cls, given: tuple[object, ...]) -> tuple[tuple[object, ...], dict[str, object]]:
        """Arguments without names as the fields have them, and what of them goes by a name."""
        return given, {}

    def text(self, name: str) -> str:
        """A field of words: what is said, else what is usual."""
        value = self._taken(name)
        assert isinstance(value, str)
        return value

    def count(self, name: str) -> int:
        """A field of whole numbers: what is said, else what is usual."""
        value = self._taken(name)
        assert isinstance(value, int)
        return value

    def number(self, name: str) -> float:
        """A field of numbers: what is said, else what is usual."""
        value = self._taken(name)
        assert isinstance(value, int | float)
        return float(value)

    def _taken(self, name: str) -> object:
        value = getattr(self, name)
        return usual_values(type(self))[name] if value is None else value

    def says(self, name: str) -> bool:
        """Whether anything is said of a field; that a switch is off says something where None is usual."""
        value = getattr(self, name)
        return (
            value is not None and value != () and value is not type(self).__dataclass_fields__[name].default
        )

    def hold(self, **values: object) -> None:
        """What a question does to its own fields while it is made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def said(self, names: Iterable[str]) -> tuple[str, ...]:
        """Options of those fields of which something is said, as ``--micro-batch-size``."""
        return tuple(option_of(name) for name in names if self.says(name))


def option_of(name: str) -> str:
    """A field as an option of the command line."""
    return f"--{name.replace('_', '-')}"


def each(values: tuple[Item, ...] | Item) -> tuple[Item, ...]:
    """What a field of several holds, which Python may give as one."""
    return values if isinstance(values, tuple) else (values,)


def usual_values(kind: type[Question]) -> Mapping[str, Plain]:
    """Field → what is taken where nothing is said, of those that have such."""
    return {one.name: one.metadata[_USUAL] for one in fields(kind) if _USUAL in one.metadata}


def plain_fields(kind: type[Question]) -> tuple[Field[Any], ...]:
    """Fields that plain data can fill."""
    return tuple(one for one in fields(kind) if not one.metadata.get(_IN_PYTHON))


def question_class(verb: str) -> type[Question]:
    """The question of a verb.

    Raises:
        UnknownNameError: There is no such verb, or it is not asked by a question.
    """
    if verb not in _HOMES:
        raise UnknownNameError("verb", verb, VERBS, f"Known: {', '.join(VERBS)}.")
    room, name = _HOMES[verb]
    found: type[Question] = getattr(import_module(f"perfcast.verbs.{room}.question"), name)
    return found


def question_of(verb: str, plain: Mapping[str, object]) -> Question:
    """The question that plain data asks; null says nothing.

    Raises:
        UnknownNameError: A verb or key that is not known; the message lists close ones.
        QuestionError: A value of another type, or a key that is missing; the message names it.
    """
    kind = question_class(verb)
    known = {one.name: one for one in plain_fields(kind)}
    for key in plain:
        if key not in known:
            raise UnknownNameError(f"option of {verb}", key, known)
    return kind(**_checked(kind, {key: value for key, value in plain.items() if value is not None}))


def check_question(question: Question, spell: Spelling = _plainly) -> Question:
    """The same question, its values of the right types and within their ranges.

    Args:
        spell: How a message names a field.

    Raises:
        QuestionError: A value of another type, out of its range, or empty; the message names its field.
    """
    kind = type(question)
    given = {one.name: getattr(question, one.name) for one in plain_fields(kind)}
    held = {name: value for name, value in given.items() if is_plain(value) and question.says(name)}
    others = {name for name, value in given.items() if not is_plain(value)}
    for name, value in _checked(kind, held, others, spell).items():
        if value is not held[name]:
            question.hold(**{name: value})
    return question


def is_plain(value: object) -> bool:
    """Whether a value can be written as JSON."""
    return value is None or isinstance(value, str | int | float | bool | tuple | list)


def plain_of(question: Question) -> dict[str, object]:
    """What is said, in types that JSON has; ``question_of`` reads it.

    Raises:
        QuestionError: Something is said that has no name, such as a module.
    """
    found: dict[str, object] = {}
    for one in fields(question):
        if question.says(one.name):
            named = _named(one.name, getattr(question, one.name))
            found[one.name] = list(named) if isinstance(named, tuple) else named
    return found


def files_of(question: Question) -> dict[str, str]:
    """Field → what is said there, where that names something of the machine that answers, or might.

    Files and folders, and what it would start or connect to.
    """
    found: dict[str, str] = {}
    for one in fields(question):
        value = getattr(question, one.name)
        texts = [text for text in (value if isinstance(value, tuple) else (value,)) if isinstance(text, str)]
        if one.metadata.get(_PLACE):
            named = [text for text in texts if text != one.metadata.get(_USUAL)]
        else:
            named = [text for text in texts if one.metadata.get(_FILE) and _may_be_file(text)]
        if named:
            found[one.name] = named[0]
    return found


def place_texts(question: Question) -> tuple[str, ...]:
    """What is said where a file or folder to be read may be named."""
    found: list[str] = []
    for one in fields(question):
        if (one.metadata.get(_FILE) or one.metadata.get(_PLACE)) and one.name not in question.written:
            value = getattr(question, one.name)
            texts = value if isinstance(value, tuple | list) else (value,)
            found.extend(text for text in texts if isinstance(text, str))
    return tuple(found)


def _may_be_file(text: str) -> bool:
    if re.fullmatch(r"\w[\w-]*/\d+(:\d+)?", text):  # a cluster's name, and devices of each of its servers
        return _exists(text)
    if "," in text:
        return any(_may_be_file(part.strip()) for part in text.split(","))
    path = text
    has_sign = any(sign in path for sign in ("/", "\\", "~", ".py:")) or path.startswith(".")
    return has_sign or path.lower().endswith(_ENDINGS) or (bool(path) and _exists(path))


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


def _named(name: str, value: object) -> object:
    """A value, or the name of the catalog that it goes by."""
    if is_plain(value):
        return tuple(_named(name, item) for item in value) if isinstance(value, tuple) else value
    text = _catalog_name(value)
    if text is None:
        raise QuestionError(f"{name}: {type(value).__name__} has no name by which it could be written")
    return text


def _catalog_name(value: object) -> str | None:
    """Of a device or cluster that is as the catalog has it; None: there is none."""
    from perfcast.catalogs.clusters import load_cluster
    from perfcast.catalogs.devices import load_device
    from perfcast.core.machine.cluster import Cluster
    from perfcast.core.machine.hardware import Device

    try:
        if isinstance(value, Device):
            return value.name if load_device(value.name) == value else None
        if isinstance(value, Cluster):
            text = f"{value.name}:{value.num_devices}"
            return text if load_cluster(text) == value else None
    except InputError:
        return None
    return None


# ---- types of fields ----------------------------------------------------------------------------


_SCALARS = {"str": str, "int": int, "float": float, "bool": bool}


def field_kinds(kind: type[Question]) -> Mapping[str, FieldKind]:
    """Field → what it takes, of those that plain data can fill."""
    return _field_kinds(cast("Hashable", kind))


@cache
def _field_kinds(kind: Any) -> Mapping[str, FieldKind]:
    return MappingProxyType({one.name: _kind_of(kind, one) for one in plain_fields(kind)})


def _kind_of(kind: type[Question], one: Field[Any]) -> FieldKind:
    """Read off the annotation: the first of its alternatives that is plain."""
    owner = next(base for base in kind.__mro__ if one.name in vars(base).get("__annotations__", {}))
    names = vars(sys.modules[owner.__module__])
    for part in str(one.type).split(" | "):
        inner = part.removeprefix("tuple[").removesuffix(", ...]")
        if inner in _SCALARS:
            return FieldKind(
                scalar=_SCALARS[inner],
                is_list=part != inner,
                bounds=one.metadata.get(_BOUNDS),
                is_amount=bool(one.metadata.get(_AMOUNT)),
                takes_numbers=inner == "str" and "float" in str(one.type).split(" | "),
                names_file=bool(one.metadata.get(_FILE) or one.metadata.get(_PLACE)),
            )
        words = names.get(inner)
        if get_origin(words) is Literal:
            return FieldKind(scalar=str, is_list=part != inner, words=get_args(words))
    raise TypeError(f"{kind.__name__}.{one.name}: {one.type} holds no plain data")


def _checked(
    kind: type[Question],
    plain: Mapping[str, object],
    others: Collection[str] = (),
    spell: Spelling = _plainly,
) -> dict[str, Any]:
    """Values in the types of their fields.

    Args:
        others: Fields that hold something else than plain data.

    Raises:
        QuestionError: One of another type, out of its range or empty; one that is needed and missing.
    """
    kinds = field_kinds(kind)
    for one in plain_fields(kind):
        is_needed = one.default is MISSING and one.default_factory is MISSING
        if is_needed and one.name not in plain and one.name not in others:
            raise QuestionError(f"{spell(one.name)} '{kind.verb}' needs it")
    return {name: read_value(spell(name), kinds[name], value) for name, value in plain.items()}
