"""Any question, for laws about all of them."""

from __future__ import annotations

from dataclasses import MISSING

import click
from hypothesis import strategies as st

from perfcast.cli.main import cli
from perfcast.verbs.fields import FieldKind
from perfcast.verbs.question import Question, field_kinds, plain_fields, question_class

TEXTS = st.text(
    st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=("Cs",)), max_size=8
).filter(lambda text: bool(text.strip()))


def scalars(kind: FieldKind) -> st.SearchStrategy[object]:
    if kind.words is not None:
        return st.sampled_from(kind.words)
    if kind.bounds is not None:
        return numbers(kind)
    return {str: TEXTS, bool: st.booleans()}[kind.scalar]


def numbers(kind: FieldKind) -> st.SearchStrategy[object]:
    """Within the range of a field."""
    allowed = kind.bounds
    assert allowed is not None
    if kind.scalar is int:
        return st.integers(int(allowed.smallest), int(allowed.largest))
    return st.floats(allowed.smallest, allowed.largest, allow_nan=False).filter(allowed.holds)


def values(kind: FieldKind) -> st.SearchStrategy[object]:
    """Texts of a list hold no commas, which part them."""
    if not kind.is_list:
        return scalars(kind)
    item = scalars(kind)
    if kind.scalar is str and kind.words is None:
        item = st.text("abc:=-/ ", min_size=1, max_size=6).filter(
            lambda text: bool(text) and text == text.strip()
        )
    return st.lists(item, min_size=1, max_size=3).map(tuple)


@st.composite
def questions(draw: st.DrawFn, verb: str) -> Question:
    kind = question_class(verb)
    kinds = field_kinds(kind)
    needed = [one.name for one in plain_fields(kind) if one.default is MISSING]
    others = [one.name for one in plain_fields(kind) if one.default is not MISSING]
    names = needed + draw(st.lists(st.sampled_from(others), unique=True, max_size=6))
    return kind(**{name: draw(values(kinds[name])) for name in names})


def command_of(verb: str) -> click.Command:
    found: click.Command = cli
    for word in verb.split():
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), word)
        assert command is not None
        found = command
    return found
