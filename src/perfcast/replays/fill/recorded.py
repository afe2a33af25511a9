"""What a trace recorded of its whole numbers: smallest and largest, or the values themselves.

PyTorch writes the values of the operators asked for beside the trace, one file per tensor:
``nid_<node>_tid_<place among the input tensors>.dat``, the elements row by row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from perfcast.errors import TraceError
from perfcast.replays.fill.rules import Need
from perfcast.replays.fill.values import recorded_values
from perfcast.replays.program.program import Fill, Filling, ReplayCall, Slot, slots_in
from perfcast.traces.dtype_words import dtype_bytes
from perfcast.traces.execution_trace.nodes import ExecutionTrace


def recorded_needs(
    call: ReplayCall, slots: Sequence[Slot], trace: ExecutionTrace, folder: Path | None
) -> Iterator[Need]:
    """What the recording says of a call's whole numbers; nothing of operators that were replaced."""
    node = trace.by_id.get(call.node_id)
    if node is None or node.schema != call.schema or (not node.tensor_ranges and folder is None):
        return
    for place, slot in enumerate(slots_in(call.arguments)):
        if not slots[slot].is_whole:
            continue
        path = _file(folder, call.node_id, place, slots[slot])
        if path is not None:
            yield Need(
                slot, Filling(Fill.RECORDED, path=str(path), reason="recorded values"), is_strict=False
            )
        elif place in node.tensor_ranges:
            low, high = node.tensor_ranges[place]
            filling = Filling(Fill.UNIFORM, low=low, high=high, reason="recorded range")
            yield Need(slot, filling, is_strict=False)


def check_recorded(recorded: Filling, need: Filling, count: int) -> None:
    """See that recorded values are what their operator needs: places within another tensor, bags' starts.

    Raises:
        TraceError: They lie outside, or the file cannot be read.
    """
    if need.kind not in (Fill.UNIFORM, Fill.LOOKUPS, Fill.OFFSETS) or count == 0:
        return
    values = recorded_values(count, recorded)
    low = 0 if need.kind is Fill.OFFSETS else need.low
    if values.min() < low or values.max() > need.high:
        raise TraceError(
            f"'{recorded.path}' holds values from {values.min()} to {values.max()}, and the operator that "
            f"uses them needs {low:g} to {need.high:g} ({need.reason})"
        )


def _file(folder: Path | None, node_id: int, place: int, slot: Slot) -> Path | None:
    """The file of a tensor's values, where it is there and as large as the tensor."""
    if folder is None:
        return None
    path = folder / f"nid_{node_id}_tid_{place}.dat"
    is_right = path.is_file() and path.stat().st_size == math.prod(slot.shape) * dtype_bytes(slot.dtype)
    return path if is_right else None
