"""Names of tensors in a generated program: by what makes them, or by what they first are to an operator."""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfcast.errors import TraceError
from perfcast.replays.generate.plan import ProgramPlan
from perfcast.replays.generate.tokens import identifier, operator_parts
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram, slots_in
from perfcast.replays.program.schema_text import parse_schema

#: Names of arguments that say nothing of what the tensor is.
_VAGUE = {"self", "other", "tensors", "input", "mat1", "mat2", "batch1", "batch2", "src", "out", "t"}


class Names:
    """The name of each slot: an identifier that ends in the slot's number, so that no two are the same."""

    def __init__(self, program: ReplayProgram, plan: ProgramPlan) -> None:
        self._made: dict[int, str] = {}
        self._given: dict[int, str] = {}
        given = set(plan.given)
        for step in plan.steps:
            for part in step.parts:
                for line in part.lines:
                    if line.call < 0:
                        self._name(self._made, line.makes, "view")
                        continue
                    call = program.calls[line.call]
                    for slot, argument in _roles(call):
                        if slot in given:
                            self._name(self._given, (slot,), argument)
                    self._name(self._made, line.makes, _word_of(call))

    def of_made(self, slot: int) -> str:
        """The name of a slot that a line makes."""
        return self._made[slot]

    def of_given(self, slot: int) -> str:
        """The name of a slot that is there before a step; another one if a line of another step makes it."""
        name = self._given.get(slot, f"given_{slot}")
        return f"{name}_before" if self._made.get(slot) == name else name

    def _name(self, names: dict[int, str], slots: tuple[int, ...], word: str) -> None:
        for slot in slots:
            names.setdefault(slot, f"{word}_{slot}")


def _roles(call: ReplayCall) -> Iterator[tuple[int, str]]:
    """The slots among a call's arguments, with the names of the arguments."""
    words: list[str] = []
    if call.kind is CallKind.OPERATOR and call.schema:
        words = [argument.name for argument in parse_schema(call.schema).arguments]
    for place, argument in enumerate(call.arguments):
        word = words[place] if place < len(words) else "message"
        for slot in slots_in((argument,)):
            yield slot, "given" if word in _VAGUE else _plain(word)


def _word_of(call: ReplayCall) -> str:
    if call.kind is not CallKind.OPERATOR:
        return "message"
    return _plain(operator_parts(call.operator, call.overload)[1])


def _plain(word: str) -> str:
    """The word as the beginning of a name; 'tensor' where it is none."""
    stripped = re.sub(r"_{2,}", "_", word).strip("_")
    try:
        return identifier(stripped)
    except TraceError:
        return "tensor"
