"""Calls for another device: where tensors lie, and operators that only one kind of device has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from perfcast.errors import TraceError
from perfcast.replays.play.operators import OperatorTable, full_name
from perfcast.replays.program.draft import Draft, DraftValue, NotPlayableError, check_installed, uses_in
from perfcast.replays.program.program import DeviceName
from perfcast.replays.rewrite.embedding_lookups import is_embedding_lookup
from perfcast.replays.rewrite.tables import (
    DTYPE_NUMBERS,
    EQUIVALENTS,
    ArgumentSource,
    Complement,
    Constant,
    Equivalent,
    ZerosLike,
)
from perfcast.traces.execution_trace.nodes import ExecutionTrace, TensorUse, tensors_in

_COPY_SCHEMA = (
    "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
    "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor"
)
_COPIES = frozenset({"aten::to", "aten::_to_copy", "aten::cpu", "aten::cuda"})


@dataclass(frozen=True)
class DeviceTarget:
    """Where a replay runs: ``device`` the most work, ``mapping`` each recorded device."""

    device: str
    mapping: Mapping[str, str]

    def mapped(self, device: str) -> str:
        """Where a recorded device's tensors lie."""
        return self.mapping.get(device, device)


def target_of(trace: ExecutionTrace, device: str | None) -> DeviceTarget:
    """Where a trace is replayed when ``device`` is asked for; ``None``: where it was recorded.

    All accelerators of the trace become the device; so does the processor where the trace has no other.

    Raises:
        TraceError: A device that a replay does not know.
    """
    found = Counter(use.device for node in trace.nodes for use in tensors_in(node.inputs) if use.device)
    accelerators = [name for name in found if not name.startswith("cpu")]
    main = max(accelerators, key=lambda name: found[name]) if accelerators else "cpu"
    if device is None:
        return DeviceTarget(main, {})
    if device.partition(":")[0] not in EQUIVALENTS:
        raise TraceError(f"a replay runs on 'cpu' or 'cuda', not on '{device}'")
    wanted = "cuda:0" if device == "cuda" else device
    moved = accelerators if accelerators else ["cpu"]
    return DeviceTarget(wanted, dict.fromkeys([*moved, "cuda"] if accelerators else moved, wanted))


def rewritten(draft: Draft, target: DeviceTarget, operators: OperatorTable) -> Draft:
    """A call as the target can do it.

    Raises:
        NotPlayableError: The installed PyTorch has neither it nor an equivalent for the device.
    """
    kind = target.device.partition(":")[0]
    draft = _copied(draft, target)
    draft = _on_devices(draft, target)
    device = _device_of(draft, target)
    equivalent = EQUIVALENTS[kind].get(draft.operator)
    if equivalent is not None and (kind == "cpu" or not operators.runs_on(full_name(draft.parsed), device)):
        draft = _replaced(draft, equivalent)
    if kind == "cpu":
        draft = _unpinned(draft)
    if not is_embedding_lookup(draft.operator):
        check_installed(draft, device, operators)
    return draft


def moved_use(use: TensorUse, target: DeviceTarget) -> TensorUse:
    """A tensor where the replay has it."""
    device = target.mapped(use.device)
    return use if device == use.device else replace(use, device=device)


def moved_value(value: DraftValue, target: DeviceTarget) -> DraftValue:
    """An argument with all devices where the replay has them."""
    if isinstance(value, TensorUse):
        return moved_use(value, target)
    if isinstance(value, DeviceName):
        return DeviceName(target.mapped(value.name))
    return tuple(moved_value(item, target) for item in value) if isinstance(value, tuple) else value


def _on_devices(draft: Draft, target: DeviceTarget) -> Draft:
    if not target.mapping:
        return draft
    return replace(
        draft,
        arguments=tuple(moved_value(value, target) for value in draft.arguments),
        outputs=tuple(None if use is None else moved_use(use, target) for use in draft.outputs),
    )


def _device_of(draft: Draft, target: DeviceTarget) -> str:
    """Where a call's tensors lie; without any, where the replay runs."""
    devices = {use.device for use in uses_in((*draft.arguments, *draft.outputs)) if use.device}
    others = sorted(device for device in devices if not device.startswith("cpu"))
    return others[0] if others else ("cpu" if devices else target.device)


def _copied(draft: Draft, target: DeviceTarget) -> Draft:
    """A copy between two devices that become one stays a copy: ``aten::to`` alone would do nothing."""
    if draft.operator not in _COPIES or not target.mapping:
        return draft
    source = next(uses_in(draft.arguments), None)
    result = draft.outputs[0] if draft.outputs else None
    if source is None or result is None or result.storage == source.storage:
        return draft
    is_moved = source.device != result.device
    if not is_moved or target.mapped(source.device) != target.mapped(result.device):
        return draft
    if result.dtype not in DTYPE_NUMBERS:
        raise NotPlayableError(f"a copy to an element type that is not known: {result.dtype[:40]}")
    arguments = (source, DTYPE_NUMBERS[result.dtype], None, None, None, False, None)
    return draft.as_call(_COPY_SCHEMA, arguments, draft.outputs[:1])


def _replaced(draft: Draft, equivalent: Equivalent) -> Draft:
    outputs = tuple(
        draft.outputs[place] if place < len(draft.outputs) else None for place in equivalent.outputs
    )
    arguments = tuple(_from(source, draft) for source in equivalent.arguments)
    return draft.as_call(equivalent.schema, arguments, outputs)


def _from(source: ArgumentSource, draft: Draft) -> DraftValue:
    if isinstance(source, Constant):
        return source.value
    if isinstance(source, str):
        return draft.argument(source)
    value = draft.argument(source.name)
    if isinstance(source, ZerosLike):
        return (0,) * len(value) if isinstance(value, tuple) else ()
    if isinstance(source, Complement):
        return 1.0 - value if isinstance(value, int | float) else None
    kept = value[: source.count] if isinstance(value, tuple) else (True,) * source.count
    return (*kept, *(False,) * (source.size - len(kept)))


def _unpinned(draft: Draft) -> Draft:
    """No memory is pinned where no accelerator copies from it."""
    place = draft.parsed.place("pin_memory")
    if place is None or place >= len(draft.arguments) or not draft.arguments[place]:
        return draft
    arguments = (*draft.arguments[:place], None, *draft.arguments[place + 1 :])
    return replace(draft, arguments=arguments)
