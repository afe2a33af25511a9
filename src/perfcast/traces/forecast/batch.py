"""Recorded operators at another batch: their arguments' sizes as ``scaling`` finds them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from perfcast.core.arrays import Integers
from perfcast.errors import PlanError
from perfcast.traces.events import Category, OperatorInputs, Trace
from perfcast.traces.scaling.blanks.run import dense_strides
from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument, tensors_in
from perfcast.traces.scaling.recorded.read import RecordedCalls, calls_alone
from perfcast.traces.scaling.scaling import End, Scaling, scale

_SPARSE = "aten::_sparse_coo_tensor"
_ENDS: tuple[End, ...] = ("likely", "unscaled", "scaled")

Shape: TypeAlias = "tuple[int, ...]"


@dataclass
class BatchChange:
    """What another batch makes of a trace's operators.

    Attributes:
        places: Row → the call that it is.
        sparse: Shapes of tables whose gradients are sparse, with how many times more rows these have.
    """

    trace: Trace
    scaling: Scaling
    calls: Mapping[int, ScalingCall]
    places: Mapping[int, int]
    sparse: Mapping[Shape, float] = field(default_factory=dict)
    _known: dict[tuple[int, End], OperatorInputs | None] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """Wanted over recorded batch."""
        return self.scaling.ratio

    def inputs_of(self, row: int, end: End = "likely") -> OperatorInputs | None:
        """What an operator would be called with; as recorded where its call is not known."""
        place = self.places.get(row)
        inputs = self.trace.events.inputs_of(row)
        if place is None or inputs is None:
            return inputs
        key = (place, end)
        if key not in self._known:
            self._known[key] = _scaled(inputs, self.calls[place], self.scaling, end)
        return self._known[key]

    def assumed(self, row: int) -> list[int]:
        """Variables among an operator's sizes that could be otherwise than taken."""
        place = self.places.get(row)
        return self.scaling.assumed(place) if place is not None else []

    def is_open(self, row: int) -> bool:
        """Whether an operator's sizes could be otherwise than taken."""
        place = self.places.get(row)
        return place is not None and self.scaling.is_open(place)

    def is_followed(self, row: int) -> bool:
        """Whether what an operator is given could be followed."""
        place = self.places.get(row)
        return place is not None and place not in self.scaling.followed.reasons

    def bytes_ratio(self, row: int) -> float:
        """How many times more elements an operator is given."""
        inputs, scaled = self.trace.events.inputs_of(row), self.inputs_of(row)
        if inputs is None or scaled is None:
            return 1.0
        if self.is_sparse(row):
            return self.sparse[shapes_in(inputs.shapes)[0]]
        was = sum(math.prod(shape) for shape in shapes_in(inputs.shapes))
        will = sum(math.prod(shape) for shape in shapes_in(scaled.shapes))
        return will / was if was else 1.0

    @cached_property
    def _growth_by_name(self) -> Mapping[str, float]:
        """Operator → how many times more elements all its calls are given."""
        sums: dict[str, tuple[int, int]] = {}
        for call in self.calls.values():
            was = sum(math.prod(t.shape) for argument in call.arguments for t in tensors_in(argument))
            will = sum(math.prod(shape) for shape in self.scaling.shapes(call.place))
            before, after = sums.get(call.operator, (0, 0))
            sums[call.operator] = (before + was, after + will)
        return {name: will / was for name, (was, will) in sums.items() if was}

    def growth_without_shapes(self, row: int) -> float | None:
        """Of an operator whose shapes were not recorded: as all others of its name; else None."""
        if self.trace.events.inputs_of(row) is not None:
            return None
        return self._growth_by_name.get(self.trace.events.name(row))

    def is_sparse(self, row: int) -> bool:
        """Whether an operator adds a sparse gradient to a table, by its shapes."""
        inputs = self.trace.events.inputs_of(row)
        shapes = shapes_in(inputs.shapes) if inputs else []
        return len(shapes) > 1 and len(set(shapes)) == 1 and shapes[0] in self.sparse


def change_of_batch(
    trace: Trace, parents: Integers, recorded: int, wanted: int, calls: RecordedCalls | None = None
) -> BatchChange:
    """What follows the batch in a trace.

    Args:
        parents: The event around each.
        calls: Of the execution trace beside it; None: of the trace itself.

    Raises:
        PlanError: No tensor's first dim is the recorded batch, or the batch is 1.
    """
    if recorded < 2 or wanted < 1:
        raise PlanError(
            f"a batch of {recorded} that becomes {wanted}: a recorded batch of 1 cannot be told from other "
            "dims of 1"
        )
    calls = calls or calls_alone(trace, parents)
    if not any(_has_batch(argument, recorded) for call in calls.calls for argument in call.arguments):
        raise PlanError(
            f"no recorded tensor has a dim of {recorded}: is that the batch? (--recorded-batch-size; shapes "
            "must have been recorded)"
        )
    scaling = scale(calls.calls, recorded, wanted, trace.world_size)
    by_place = {call.place: call for call in calls.calls}
    change = BatchChange(trace, scaling, by_place, _with_alike(trace, by_place, calls.places))
    return replace(change, sparse=_sparse_tables(change))


def _has_batch(argument: Argument, recorded: int) -> bool:
    """Whether a tensor has a dim of the batch, or a list as many tensors as samples."""
    tensors = list(tensors_in(argument))
    is_list = isinstance(argument, tuple) and len(tensors) == recorded
    return is_list or any(recorded in tensor.shape for tensor in tensors)


def _with_alike(trace: Trace, calls: Mapping[int, ScalingCall], places: Mapping[int, int]) -> dict[int, int]:
    """The places, and for rows without one that of a call of the same operator with the same sizes."""
    alike: dict[tuple[str, tuple[Shape, ...]], int] = {}
    for call in calls.values():
        key = (call.operator, tuple(t.shape for a in call.arguments for t in tensors_in(a) if t.dtype))
        alike.setdefault(key, call.place)
    found = dict(places)
    for row in trace.events.rows_in(Category.OPERATOR).tolist():
        inputs = trace.events.inputs_of(row) if row not in found else None
        if inputs is not None:
            place = alike.get((trace.events.name(row), tuple(filter(None, shapes_in(inputs.shapes)))))
            if place is not None:
                found[row] = place
    return found


def _scaled(inputs: OperatorInputs, call: ScalingCall, scaling: Scaling, end: End) -> OperatorInputs:
    """The inputs with the sizes of a call's tensors, and of its literals, at the wanted batch."""
    shapes, strides, values = list(inputs.shapes), list(inputs.strides), list(inputs.values)
    new = iter(scaling.shapes(call.place, end))
    for index, argument in enumerate(call.arguments):
        own = [(tensor, next(new)) for tensor in tensors_in(argument)]
        if index >= len(shapes) or not own:
            continue
        steps = strides[index] if index < len(strides) else ()
        if isinstance(argument, TensorArgument):
            if shapes[index] == argument.shape:
                shapes[index] = own[0][1]
                if index < len(strides):
                    strides[index] = _strides(argument.shape, own[0][1], steps)
        elif shapes[index] == tuple(tensor.shape for tensor, _ in own):
            shapes[index] = tuple(shape for _, shape in own)
            if index < len(strides):
                strides[index] = ()
    for (index, inner), dim in scaling.followed.literals.get(call.place, {}).items():
        if index < len(values) and index < len(call.arguments):
            values[index] = _with_number(values[index], call.arguments[index], inner, scaling.size(dim, end))
    return replace(inputs, shapes=tuple(shapes), strides=tuple(strides), values=tuple(values))


def _strides(shape: Shape, scaled: Shape, strides: object) -> Shape:
    known = tuple(step for step in strides if isinstance(step, int)) if isinstance(strides, tuple) else ()
    return dense_strides(shape, scaled, known if len(known) == len(shape) else None)


def _with_number(text: str, argument: Argument, inner: int | None, number: int) -> str:
    """A value's text with another number in one place; what is not positive means something else."""
    if inner is None:
        return str(number) if type(argument) is int and argument > 0 else text
    parts = text.strip("[]").split(",")
    if inner >= len(parts) or not parts[inner].strip().isdecimal():
        return text
    parts[inner] = f" {number}" if inner else str(number)
    return f"[{','.join(parts)}]"


def _sparse_tables(change: BatchChange) -> dict[Shape, float]:
    """Full shapes of sparse tensors made in the recording, with the growth of their rows."""
    events, found = change.trace.events, dict[Shape, float]()
    codes = {code for code, name in enumerate(events.names) if name.startswith(_SPARSE)}
    for row in events.rows_in(Category.OPERATOR).tolist():
        inputs = events.inputs_of(row) if int(events.name_codes[row]) in codes else None
        scaled = change.inputs_of(row) if inputs is not None else None
        if inputs is None or scaled is None or len(inputs.values) < 3 or len(inputs.shapes) < 2:
            continue
        digits = inputs.values[2].strip("[]").replace(" ", "").split(",")
        was, will = shapes_in(inputs.shapes[1]), shapes_in(scaled.shapes[1])
        if all(digit.isdecimal() for digit in digits) and was and will and was[0]:
            found[tuple(map(int, digits))] = will[0][0] / was[0][0] if was[0][0] else 1.0
    return found


def shapes_in(value: object) -> list[Shape]:
    """All shapes among recorded ones, lists opened."""
    if not isinstance(value, tuple):
        return []
    if value and all(isinstance(size, int) for size in value):
        return [value]
    return [shape for part in value for shape in shapes_in(part)]
