"""A planned program as Python: one line a call, one line a given tensor.

Every token comes from ``generate_tokens`` or from PyTorch's own objects (element types, layouts); nothing
of a trace is copied as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from perfcast.errors import TraceError
from perfcast.replays.communication.groups import GroupKey, group_of
from perfcast.replays.generate.names import Names
from perfcast.replays.generate.plan import WINDOW, Line, StepPart
from perfcast.replays.generate.tokens import (
    device_token,
    dtype_token,
    label_text,
    number_token,
    operator_parts,
    string_token,
)
from perfcast.replays.play.bind import bind_call, find_operator
from perfcast.replays.program.program import CallKind, ReplayCall, ReplayProgram
from perfcast.replays.program.program import SlotUse as Use
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.events import NONE

#: Collectives that the shipped file carries out.
COLLECTIVES = frozenset({"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce",
                       "gather_to_root", "scatter_from_root", "send", "receive", "barrier"})  # fmt: skip
#: Longer lines are broken at their arguments.
_WIDTH = 100
#: Shorter gaps of the host are left out, in seconds: what a line costs by itself.
_LEAST_GAP_SECONDS = 2e-7


class StepWriter:
    """Writes the parts of a program's steps; gathers the operators that they call."""

    def __init__(
        self,
        program: ReplayProgram,
        groups: Sequence[GroupKey],
        names: Names,
        label: Callable[[str], str],
    ) -> None:
        self.operators: dict[str, str] = {}  # the name in the file → PyTorch's
        self.calls: list[list[int]] = []  # of each part, the call of each line (``NONE``: of none)
        self._device = main_device(program)
        self._program, self._groups, self._names, self._label = program, groups, names, label
        self._module = ""
        self._is_noted = False
        self._stream = NONE

    def part(self, title: str, part: StepPart, gaps: Mapping[int, float]) -> list[str]:
        """The lines of one function."""
        lines = [f"def {title}(t: Tensors) -> None:"]
        self._module, self._is_noted, self._stream = "", False, NONE
        calls = [NONE]
        self.calls.append(calls)
        for line, dropped in zip(part.lines, part.dropped, strict=True):
            unused = set(dropped) & set(line.makes)
            lines += self._line(line, part, unused, gaps)
            calls += [line.call] * (len(lines) - len(calls))
            gone = [self._name(slot, part) for slot in dropped if slot not in unused]
            if gone:
                lines.append(f"    del {', '.join(gone)}")
                calls.append(NONE)
        if self._is_noted:
            lines.append("    t.note(False)")
        if self._stream != NONE:
            lines.append("    t.use_stream()")
        return lines if len(lines) > 1 else [*lines, "    pass"]

    def _name(self, slot: int, part: StepPart) -> str:
        if slot in part.given:
            return f"t.{self._names.of_given(slot)}"
        name = self._names.of_made(slot)
        return f"t.{name}" if slot in part.shared else name

    def _line(self, line: Line, part: StepPart, unused: set[int], gaps: Mapping[int, float]) -> list[str]:
        def name(slot: int) -> str:
            return self._name(slot, part)

        if line.call == WINDOW:
            return [f"    {name(line.makes[0])} = {self._window(line, name)}"]
        call = self._program.calls[line.call]
        lines = []
        if call.module != self._module:
            self._module = call.module
            shown = label_text(self._label(call.module)) if call.module else "outside modules"
            lines.append(f"    # {shown}")
        gap = gaps.get(line.call, 0.0)
        if gap > _LEAST_GAP_SECONDS:
            lines.append(f"    t.pause({gap:.7f})")
        if call.is_differentiated != self._is_noted:
            self._is_noted = call.is_differentiated
            lines.append(f"    t.note({self._is_noted})")
        if call.stream != self._stream:
            self._stream = call.stream
            lines.append(f"    t.use_stream({'' if call.stream == NONE else number_token(call.stream)})")
        if call.kind is CallKind.OPERATOR:
            return lines + self._operator(line, call, name, unused)
        return lines + self._other(line.call, call, name)

    def _window(self, line: Line, name: Callable[[int], str]) -> str:
        slot = self._program.slots[line.makes[0]]
        base = self._program.slots[line.uses[0]]
        place = f"{_numbers(slot.shape)}, {_numbers(slot.strides)}, {slot.offset_elements}"
        if base.dtype == slot.dtype:
            return f"{name(line.uses[0])}.as_strided({place})"
        return f"window({name(line.uses[0])}, {dtype_token(slot.dtype)}, {place})"

    def _operator(
        self, line: Line, call: ReplayCall, name: Callable[[int], str], unused: set[int]
    ) -> list[str]:
        bound = bind_call(call)
        arguments = [argument_text(value, name, self._device) for value in bound.positional]
        arguments += [
            f"{key}={argument_text(value, name, self._device)}" for key, value in bound.keywords.items()
        ]
        made = set(line.makes) - unused
        targets = [name(slot) if slot in made else "_" for slot in call.outputs]
        function = self._operator_name(call)
        shape = next((f"  # {self._shape(s)}" for s in call.outputs if s in made), "")
        if not made:
            return _call_text("", function, arguments, "", shape)
        returns = [str(one.type) for one in find_operator(call.name)._schema.returns]
        if returns == ["Tensor"] and len(targets) == 1:
            return _call_text(f"{targets[0]} = ", function, arguments, "", shape)
        if returns == ["List[Tensor]"] or returns == ["Tensor"] * len(targets):
            return _call_text(f"{_targets(targets)} = ", function, arguments, "", shape)
        return _call_text(f"{_targets(targets)} = flat(", function, arguments, ")", shape)

    def _operator_name(self, call: ReplayCall) -> str:
        space, operator, overload = operator_parts(call.operator, call.overload)
        path = f"torch.ops.{space}.{operator}.{overload}"
        alias = f"{space}_{operator.strip('_')}" if operator.startswith("__") else f"{space}_{operator}"
        alias = re.sub(r"_{2,}", "_", alias) + ("" if overload == "default" else f"_{overload}")
        while self.operators.setdefault(alias, path) != path:
            alias += "_"
        return alias

    def _shape(self, slot: int) -> str:
        found = self._program.slots[slot]
        return f"{dtype_token(found.dtype).removeprefix('torch.')} {list(map(int, found.shape))}"

    def _other(self, index: int, call: ReplayCall, name: Callable[[int], str]) -> list[str]:
        """A collective, a wait, or time that passes."""
        if call.emulated_seconds == call.emulated_seconds:
            return [f"    wait({number_token(call.emulated_seconds)})"]
        if call.kind is CallKind.WAIT:
            return [f"    t.collectives.wait({number_token(call.waits_for)})"]
        if call.kind is CallKind.COLLECTIVE:
            return collective_lines(self._program, self._groups, index, name)
        return []


def collective_lines(
    program: ReplayProgram, groups: Sequence[GroupKey], index: int, name: Callable[[int], str]
) -> list[str]:
    """One collective: what is received and sent, in which of ``groups``, how it is cut.

    Raises:
        TraceError: Its arguments are not those of a collective, or no such collective is known.
    """
    call = program.calls[index]
    collective = call.collective
    if collective is None or len(call.arguments) < 2:
        raise TraceError(f"node {call.node_id}: a collective that does not say what is exchanged")
    word = canonical_name(collective.name)
    if word not in COLLECTIVES:
        raise TraceError(f"node {call.node_id}: a replay knows no collective '{label_text(collective.name)}'")
    received, sent, *rest = call.arguments
    group = groups.index(group_of(collective, program.groups, program.world_size))
    arguments = [
        number_token(index),
        f'"{word}"',
        f'"group_{group}"',
        argument_text(_as_list(received), name),
        argument_text(_as_list(sent), name),
    ]
    if rest and rest[0] is not None:
        arguments.append(f"root={argument_text(rest[0], name)}")
    if collective.in_splits or collective.out_splits:
        arguments.append(f"received_splits={_numbers(collective.out_splits)}")
        arguments.append(f"sent_splits={_numbers(collective.in_splits)}")
    if call.is_asynchronous:
        arguments.append("is_asynchronous=True")
    return _call_text("", "t.collectives.start", arguments, "", "")


def _as_list(argument: Any) -> list[Any]:
    return list(argument) if isinstance(argument, (tuple, list)) else [argument]


def main_device(program: ReplayProgram) -> str:
    """The kind of device that a program is for: the accelerator, if it has tensors on one."""
    kinds = {buffer.device.partition(":")[0] for buffer in program.buffers} - {"cpu", ""}
    return min(kinds, default="cpu")


def argument_text(value: Any, name: Callable[[int], str], device: str = "") -> str:
    """An argument as Python: a tensor's name, a number, a list; enumerations by PyTorch's own names.

    The device of kind ``device`` is the one that the program is started on.

    Raises:
        TraceError: Something that cannot be written.
    """
    import torch

    if value is None:
        return "None"
    if isinstance(value, Use):
        return name(value.slot)
    if isinstance(value, bool | int | float):
        return number_token(value)
    if isinstance(value, str):
        return string_token(value)
    if isinstance(value, torch.device):
        return "t.device" if value.type == device else device_token(str(value))
    if isinstance(value, torch.dtype | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, list | tuple):
        inner = [argument_text(item, name, device) for item in value]
        if _has_slot(value):
            return f"[{', '.join(inner)}]"
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    raise TraceError(f"an argument of type {type(value).__name__} cannot be written into a program")


def _has_slot(value: Sequence[Any]) -> bool:
    return any(
        isinstance(item, Use) or (isinstance(item, list | tuple) and _has_slot(item)) for item in value
    )


def _numbers(values: Sequence[int]) -> str:
    inner = ", ".join(number_token(value) for value in values)
    return f"({inner}{',' if len(values) == 1 else ''})"


def _targets(names: Sequence[str]) -> str:
    return f"{names[0]}," if len(names) == 1 else ", ".join(names)


def _call_text(before: str, function: str, arguments: Sequence[str], after: str, comment: str) -> list[str]:
    """A call on one line, or with one argument a line where that is too long."""
    text = f"    {before}{function}({', '.join(arguments)}){after}"
    if len(text) + len(comment) <= _WIDTH or not arguments:
        return [text + comment]
    if len(text) <= _WIDTH:
        return [f"    {comment.strip()}", text] if comment else [text]
    return [
        f"    {before}{function}({comment}",
        *(f"        {line}," for line in _filled(arguments)),
        f"    ){after}",
    ]


def _filled(arguments: Sequence[str]) -> list[str]:
    """Arguments, as many on a line as fit."""
    lines: list[str] = []
    for argument in arguments:
        if lines and len(lines[-1]) + len(argument) + 12 <= _WIDTH:
            lines[-1] += f", {argument}"
        else:
            lines.append(argument)
    return lines
