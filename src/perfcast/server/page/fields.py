"""The fields of a verb's question, for controls."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Literal

from perfcast.verbs.fields import FieldKind
from perfcast.verbs.question import field_kinds, question_class, usual_values
from perfcast.verbs.schema import described

#: What is entered: words, a number, yes or no, or one of a few words.
Entry = Literal["text", "number", "flag", "choice"]

_WHOLE_WORDS = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "kv": "KV",
    "dtype": "precision",
    "cuda": "CUDA",
    "mfu": "MFU",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field of a question.

    Attributes:
        name: As in Python and in the address.
        kind: What plain data it takes.
        hint: What the question's docstring says of it.
        usual: What is taken where nothing is said; '' where that depends.
    """

    name: str
    kind: FieldKind
    hint: str = ""
    usual: str = ""

    @property
    def label(self) -> str:
        """Its name as it is read."""
        words = [_WHOLE_WORDS.get(word, word) for word in self.name.split("_")]
        text = " ".join(words)
        return text[0].upper() + text[1:]

    @property
    def entry(self) -> Entry:
        """What is entered; several values are entered as words."""
        if self.kind.is_list:
            return "text"
        if self.kind.words is not None:
            return "choice"
        if self.kind.scalar is bool:
            return "flag"
        return "text" if self.kind.scalar is str or self.kind.is_amount else "number"


@cache
def fields_of(verb: str) -> MappingProxyType[str, Field]:
    """Field by name, in the question's order.

    Raises:
        UnknownNameError: There is no such verb.
    """
    kind = question_class(verb)
    hints, usual = described(kind), usual_values(kind)
    return MappingProxyType(
        {
            name: Field(name=name, kind=taken, hint=hints.get(name, ""), usual=str(usual.get(name, "")))
            for name, taken in field_kinds(kind).items()
        }
    )


def read_entry(field: Field, entered: object) -> object:
    """What was entered, as plain data of the field; None where that says nothing.

    Numbers that are none stay text, so that the question can say what is wrong with them.
    """
    if entered is None or entered == "" or entered is False:
        return None
    if field.kind.is_list:
        return tuple(_scalar(field, part) for part in split_entry(str(entered))) or None
    return _scalar(field, entered)


def split_entry(text: str) -> list[str]:
    """Items between commas; values of one key stay together: ``'tp=8, replicas=1,2'`` has two."""
    found: list[str] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        if found and "=" in found[-1] and "=" not in part:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return found


def _scalar(field: Field, entered: object) -> object:
    if field.kind.scalar is int and isinstance(entered, float) and entered.is_integer():
        return int(entered)
    if field.kind.scalar in (int, float) and isinstance(entered, str):
        try:
            return field.kind.scalar(entered)
        except ValueError:
            return entered
    return entered


def write_entry(value: object) -> str:
    """A value as it is entered as words."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)


def number_of(text: str) -> str | int | float:
    """A number where the text is one, else the text."""
    for read in (int, float):
        try:
            return read(text.strip())
        except ValueError:
            continue
    return text
