"""A call before its tensors have places: operator and arguments, tensors still as the trace saw them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from perfcast.errors import TraceError
from perfcast.replays.play.limits import ReplayLimits, check_arguments, check_operator
from perfcast.replays.play.operators import OperatorTable, full_name
from perfcast.replays.program.program import CallKind, DeviceName
from perfcast.replays.program.schema_text import Schema, SchemaArgument, parse_schema
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.events import NONE, Collective
from perfcast.traces.execution_trace.nodes import Node, Opaque, TensorUse, Value, tensors_in

DraftValue: TypeAlias = "TensorUse | DeviceName | int | float | bool | str | tuple[DraftValue, ...] | None"

#: Operators that change nothing but what autograd or a stream knows: nothing is lost without them.
WITHOUT_EFFECT = frozenset(
    {"aten::requires_grad_", "aten::retain_grad", "aten::_backward", "aten::set_data",
     "aten::record_stream", "aten::_version", "aten::is_leaf", "aten::output_nr",
     "aten::_has_same_storage_numel", "profiler::_record_function_enter_new",
     "profiler::_record_function_exit"}
)  # fmt: skip
#: Types of arguments for which a replay has nothing, and needs nothing.
_DEFAULTED = ("Generator", "Stream")


@dataclass(frozen=True, slots=True)
class Draft:
    """As ``program.Call``, with tensors as the trace saw them; outputs flattened, ``None`` if undefined."""

    node_id: int
    kind: CallKind
    schema: str
    operator: str
    overload: str
    arguments: tuple[DraftValue, ...]
    outputs: tuple[TensorUse | None, ...]
    module: str = ""
    step: int = 0
    gap_seconds: float = float("nan")
    recorded_seconds: float = float("nan")
    collective: Collective | None = None
    waits_for_sequence: int = NONE
    stream: int = NONE
    is_asynchronous: bool = False
    is_differentiated: bool = False

    @property
    def parsed(self) -> Schema:
        """The schema's parts (operators only)."""
        return parse_schema(self.schema)

    def as_call(
        self, schema: str, arguments: tuple[DraftValue, ...], outputs: tuple[TensorUse | None, ...]
    ) -> Draft:
        """Another operator in this one's place."""
        parsed = parse_schema(schema)
        return replace(
            self,
            schema=schema,
            operator=parsed.operator,
            overload=parsed.overload,
            arguments=arguments,
            outputs=outputs,
        )

    def argument(self, name: str) -> DraftValue:
        """The value of the argument of this name; ``None`` where it has none."""
        place = self.parsed.place(name)
        return self.arguments[place] if place is not None and place < len(self.arguments) else None


class NotPlayableError(Exception):
    """An operator that cannot be called here; the message is the reason."""

    def __init__(self, reason: str, *, is_harmless: bool = False) -> None:
        super().__init__(reason)
        self.is_harmless = is_harmless


def draft_operator(node: Node, limits: ReplayLimits) -> Draft:
    """An operator's call, as recorded.

    Raises:
        NotPlayableError: Nothing calls it, it may not be called, or the trace does not keep its arguments.
        TraceError: It asks for more memory than the limit.
    """
    if node.name in WITHOUT_EFFECT:
        raise NotPlayableError("it changes only what autograd or a stream knows", is_harmless=True)
    schema = parse_schema(node.schema)
    try:
        check_operator(schema, limits)
    except TraceError as error:
        raise NotPlayableError(str(error)) from None
    _check_element_types(node)
    arguments = tuple(
        _argument(described, value) for described, value in zip(schema.arguments, node.inputs, strict=False)
    )
    arguments = (*arguments, *_defaults(schema, len(arguments)))
    check_arguments(schema, arguments, limits)
    return Draft(
        node_id=node.id,
        kind=CallKind.OPERATOR,
        schema=node.schema,
        operator=schema.operator,
        overload=schema.overload,
        arguments=arguments,
        outputs=tuple(use if use.dtype else None for use in tensors_in(node.outputs)),
    )


def _check_element_types(node: Node) -> None:
    unknown = (use.dtype for use in tensors_in((*node.inputs, *node.outputs)) if use.dtype)
    word = next((dtype for dtype in unknown if not dtype_bytes(dtype)), "")
    if word:
        raise NotPlayableError(f"a tensor of an element type that is not known: {_printable(word)}")


def check_installed(draft: Draft, device: str, operators: OperatorTable) -> None:
    """See that an operator can be called here.

    Raises:
        NotPlayableError: The installed PyTorch does not know it, or not on this device.
    """
    name = full_name(draft.parsed)
    if not operators.exists(name):
        hint = "" if draft.parsed.namespace == "aten" else "; --module FILE.py can register it"
        raise NotPlayableError(f"the installed PyTorch has no operator '{name}'{hint}")
    is_sparse = any(use.is_sparse for use in uses_in(draft.arguments))
    if not operators.runs_on(name, device, is_sparse=is_sparse):
        raise NotPlayableError(f"the installed PyTorch has no kernel of '{name}' for '{device}'")


def _defaults(schema: Schema, num_given: int) -> Iterator[DraftValue]:
    """Values of the arguments that the trace does not have."""
    for described in schema.arguments[num_given:]:
        if described.default is None:
            raise NotPlayableError(f"the trace does not keep its argument '{described.name}'")
        yield described.default_value()


def _argument(described: SchemaArgument, value: Value) -> DraftValue:
    kind = described.type
    if kind.startswith(_DEFAULTED):
        return None
    if kind.startswith("Device") and isinstance(value, str):
        return DeviceName(value)
    converted = _converted(value, described)
    if converted is None and kind in ("Tensor", "Tensor[]"):
        raise NotPlayableError(f"its tensor '{described.name}' is undefined")
    return converted


def _converted(value: Value, described: SchemaArgument) -> DraftValue:
    if isinstance(value, tuple):
        return tuple(_converted(item, described) for item in value)
    if isinstance(value, TensorUse):
        return value if value.dtype else None
    if isinstance(value, Opaque):
        raise NotPlayableError(
            f"the trace only names its argument '{described.name}' ({_printable(value.kind)})"
        )
    return value


def uses_in(arguments: DraftValue) -> Iterator[TensorUse]:
    """The tensors among arguments, also those in lists, in order."""
    if isinstance(arguments, TensorUse):
        yield arguments
    elif isinstance(arguments, tuple):
        for item in arguments:
            yield from uses_in(item)


def _printable(text: str) -> str:
    return "".join(character for character in text[:40] if character.isprintable())
