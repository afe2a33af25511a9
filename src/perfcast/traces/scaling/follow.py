"""Follows what may grow with the batch through recorded calls.

Each call is run on tensors without memory, every variable that its arguments grow with at a prime of its
own: what comes out shows by its prime factors what it grows with. Where a call only runs if two sizes are
the same, their variables are joined. So it is the operators that decide: a hidden size that happens to be
the batch meets a parameter and stays; edges of a graph meet the nodes' features and grow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

from perfcast.traces.scaling.assumptions import FIXED, Assumptions, Origin
from perfcast.traces.scaling.blanks.run import parameters_of
from perfcast.traces.scaling.doubles import Makeup, combinations_of, is_in_doubt, surest, told_apart
from perfcast.traces.scaling.extents import (
    Dim,
    fixed,
    growing,
    joined,
    largest_monomial,
    size_of,
    variables_of,
)
from perfcast.traces.scaling.given_sizes import Shapes, by_given_sizes, gathered_samples
from perfcast.traces.scaling.joins import join, join_all
from perfcast.traces.scaling.pieces import CUTS
from perfcast.traces.scaling.primes import Place, run
from perfcast.traces.scaling.recorded.calls import Argument, ScalingCall, TensorArgument, tensors_in
from perfcast.traces.scaling.rules import SEARCHES, Dims, dim_alike, rule_of
from perfcast.traces.scaling.running import by_running
from perfcast.traces.scaling.sources import evidence_of_literals
from perfcast.traces.scaling.sparse import (
    join_rows,
    join_sparse,
    made_sparse,
    makes_sparse,
    sparse_outputs,
    told,
)
from perfcast.traces.scaling.tensors import Tensors, key_of, parameters_among
from perfcast.traces.scaling.windows import by_strides

#: Layers over steps, with their states' batch in the second dim.
_RECURRENT = frozenset({"aten::lstm", "aten::gru", "aten::rnn_tanh", "aten::rnn_relu"})
#: Take parts of a tensor; their gradients say its sizes.
_TAKEN_OF = CUTS | frozenset(
    f"aten::{name}"
    for name in ("select", "unfold", "diagonal", "max", "min", "median", "mode", "topk", "sort")
)
_WINDOWS = frozenset({"aten::as_strided", "aten::as_strided_", "aten::resize_"})
_ACCUMULATION = "torch::autograd::AccumulateGrad"


Made: TypeAlias = "Sequence[TensorArgument | None] | None"


@dataclass
class Followed:
    """What came out: makeup of every tensor argument, of literal sizes, and what could not be followed.

    Attributes:
        dims: By place of a call: dims of its tensor arguments, in order.
        outputs: Likewise of its results.
        literals: By place of a call: numbers that are sizes.
        reasons: By place of a call that could not be followed: why not.
        makeups: By place of a call whose tensors others cannot be told from: what they may be made of, the
            likeliest first.
    """

    assumptions: Assumptions
    dims: dict[int, tuple[Dims, ...]] = field(default_factory=dict)
    outputs: dict[int, tuple[Dims | None, ...]] = field(default_factory=dict)
    literals: dict[int, dict[Place, Dim]] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    makeups: dict[int, list[Makeup]] = field(default_factory=dict)


def follow(calls: Sequence[ScalingCall], batch: int, world_size: int = 1) -> Followed:
    """The makeup of all sizes of recorded calls.

    Args:
        calls: In the order of their starts, those below a call behind it.
        batch: Recorded.
        world_size: Ranks, whose batches may stand together in one tensor.
    """
    follower = _Follower(batch, world_size, parameters_among(calls))
    for call in calls:
        follower.enter(call)
    follower.finish()
    return follower.found


class _Follower:
    def __init__(self, batch: int, world_size: int, parameters: set[Hashable]) -> None:
        assumptions = Assumptions()
        self._batch = batch
        self._tensors = Tensors(assumptions, batch, world_size, parameters)
        self.found = Followed(assumptions, literals=self._tensors.literals)
        self._settled_until = -1  # the last place below a call whose results are known
        self._recurrent_until = -1  # the last place below a layer over steps
        self._unsettled: list[tuple[ScalingCall, tuple[Dims, ...]]] = []

    # What tensors are made of

    def enter(self, call: ScalingCall) -> None:
        """One call, after all that started before it."""
        while self._unsettled and self._unsettled[-1][0].last_below < call.place:
            self._guess(*self._unsettled.pop())
        own = self._chosen(
            call, [(t, self._tensors.dims_of(t, call, p), p) for t, p in self._named_tensors(call)]
        )
        self.found.dims[call.place] = own
        if not call.is_operator:
            if call.operator.endswith(_ACCUMULATION):
                for dims in own:
                    self._fix(dims)
            return
        is_inside = call.place <= self._settled_until
        self._note(call, own)
        if is_inside and self._is_known(call):
            return
        made = self._made_by(call)
        outputs = self._outputs(call, own, made, is_inside=is_inside)
        if outputs is not None and made is not None:
            self._bind(call, made, outputs, is_inside=is_inside)
            self.found.outputs[call.place] = tuple(outputs)
            if None not in outputs:  # what sparse tensors hold, the operators below show
                self._settled_until = max(self._settled_until, call.last_below)
        elif not is_inside:
            self._expect(call, own)
            self._unsettled.append((call, own))

    def _note(self, call: ScalingCall, own: tuple[Dims, ...]) -> None:
        """What an operator tells whether or not its results are known."""
        if call.operator in _RECURRENT:  # each step takes the samples that are left: a share of them
            self._recurrent_until = max(self._recurrent_until, call.last_below)
        if call.operator in _TAKEN_OF and own:
            self._tensors.note_cut(next(tensors_in(call.arguments)).shape, own[0])
        if call.operator == "aten::copy_" and len(own) > 1:
            join_all(self.found.assumptions, zip(reversed(own[0]), reversed(own[1]), strict=False))

    def _chosen(
        self, call: ScalingCall, given: Sequence[tuple[TensorArgument, Dims, str]]
    ) -> tuple[Dims, ...]:
        """What a call's tensors are made of, where more than one makeup fits: with what it runs."""
        options = [self._tensors.options(tensor, dims, name) for tensor, dims, name in given]
        if all(len(own) == 1 for own in options):
            return tuple(dims for _, dims, _ in given)
        tried = list(combinations_of(options))
        makeups = [Makeup(own) for own in tried]
        if call.is_operator:
            self.found.dims[call.place] = tried[0]
            shapes = [None if tensor is None else tensor.shape for tensor in self._made_by(call) or ()]
            literals = self._tensors.literals_of(call)
            makeups = told_apart(self.found.assumptions, call, tried, literals, shapes)
        makeups = surest(self.found.assumptions, makeups)
        self.found.makeups[call.place] = makeups
        return makeups[0].own

    def _is_known(self, call: ScalingCall) -> bool:
        """Whether the makeup of all results is known from the call around it."""
        return call.outputs is not None and all(t is None or self._tensors.is_known(t) for t in call.outputs)

    def finish(self) -> None:
        """After the last call."""
        while self._unsettled:
            self._guess(*self._unsettled.pop())
        self.found.makeups = {
            place: tried
            for place, tried in self.found.makeups.items()
            if is_in_doubt(self.found.assumptions, tried)
        }

    def _named_tensors(self, call: ScalingCall) -> Iterator[tuple[TensorArgument, str]]:
        described = parameters_of(call.operator, call.overload) if call.is_operator else ()
        for place, value in enumerate(call.arguments):
            name = described[place].name if place < len(described) else ""
            for tensor in tensors_in(value):
                yield tensor, name

    def _fix(self, dims: Dims) -> None:
        for dim in dims:
            for variable in variables_of(dim):
                self.found.assumptions.join(FIXED, variable)

    def _bind(
        self, call: ScalingCall, made: Sequence[TensorArgument | None], outputs: Sequence[Dims | None], *,
        is_inside: bool,
    ) -> None:  # fmt: skip
        given = {key_of(t) for t in tensors_in(call.arguments)} if call.outputs is not None else set()
        for at, (tensor, dims) in enumerate(zip(made, outputs, strict=False)):
            if tensor is None or dims is None:
                continue
            self._tensors.made(tensor)
            if key_of(tensor) not in given and not (is_inside and self._tensors.is_known(tensor)):
                self._tensors.remember(tensor, dims)
                for makeup in self.found.makeups.get(call.place, ())[1:]:
                    self._tensors.doubt(tensor, makeup.made[at] if makeup.made else None)

    def _expect(self, call: ScalingCall, own: tuple[Dims, ...]) -> None:
        """Rows that a search makes, where the recording does not say what came out."""
        if call.outputs is not None or not own:
            return
        tensors = list(tensors_in(call.arguments))
        masks = [dims for dims, t in zip(own, tensors, strict=True) if t.dtype in ("bool", "uint8")]
        if call.operator in SEARCHES and (call.operator != "aten::where" or len(tensors) == 1):
            powers = joined(largest_monomial(dim) for dim in self._canonical(own[0]))
            for rest in ((), (len(own[0]),)):
                self._tensors.expect("int64", rest, powers)
        elif call.operator == "aten::index" and masks:
            powers = joined(largest_monomial(dim) for dim in self._canonical(masks[0]))
            self._tensors.expect(tensors[0].dtype, tensors[0].shape[len(masks[0]) :], powers)

    # What calls make of them

    def _outputs(
        self, call: ScalingCall, own: tuple[Dims, ...], made: Made, *, is_inside: bool
    ) -> list[Dims | None] | None:
        """Dims of the results; None where the call cannot be followed."""
        join_sparse(self.found.assumptions, call, own)
        self._tensors.hold(call, made, own)
        if told(call.operator) is not None:
            held = self._tensors.held(call)
            return None if held is None else [held]
        shapes = None if made is None else [None if tensor is None else tensor.shape for tensor in made]
        gathered = gathered_samples(self._tensors, call, own, shapes)
        if gathered is not None:
            return [gathered]
        if shapes is not None and self._is_fixed(call, own):
            return [tuple(map(fixed, shape)) if shape is not None else None for shape in shapes]
        window = self._window(call, own, made)
        if window is not None:
            return [window]
        self._join_parts(call, own)
        found = self._sparse_outputs(call, own, shapes)
        if found is None and not (call.operator in CUTS and call.place <= self._recurrent_until):
            found = by_given_sizes(self._tensors, call, own, shapes)
        if found is None:
            found = self._by_rule(call, own, shapes)
        if found is not None or shapes is None:
            return found
        literals = self._tensors.literals_of(call)
        may_join = not is_inside or call.place <= self._recurrent_until
        return by_running(self.found.assumptions, call, own, literals, shapes, may_join=may_join)

    def _window(self, call: ScalingCall, own: tuple[Dims, ...], made: Made) -> Dims | None:
        """What another window onto a tensor's memory is made of; None where its strides do not show it."""
        given = call.arguments[0] if call.arguments else None
        if call.operator not in _WINDOWS or not made or not isinstance(given, TensorArgument):
            return None
        result = made[0]
        if result is None:
            return None
        found = self._tensors.window(result) if call.outputs is not None else None
        if found is None:
            found = own[0] if given.shape == result.shape else by_strides(result, given, own[0])
        if found is not None:
            literals = self._tensors.literals_of(call)
            whole = [(d, found[at or 0]) for (_, at), d in literals.items() if found[at or 0] in own[0]]
            join_all(self.found.assumptions, whole)
        return found

    def _is_fixed(self, call: ScalingCall, own: tuple[Dims, ...]) -> bool:
        """Whether nothing that a call is given may follow the batch."""
        if any(variables_of(dim) for dims in own for dim in self._canonical(dims)):
            return False
        return any(True for _ in tensors_in(call.arguments)) and not self._tensors.literals_of(call)

    def _sparse_outputs(
        self, call: ScalingCall, own: tuple[Dims, ...], shapes: Shapes
    ) -> list[Dims | None] | None:
        if shapes is None or len(shapes) != 1 or shapes[0] is None:
            return None
        literals = self._tensors.literals_of(call) if makes_sparse(call.operator) else {}
        sparse = sparse_outputs(call, own, literals, [shapes[0]])
        if sparse is None:
            return None
        join_rows(self.found.assumptions, call, own, sparse[0])
        return list(sparse)

    def _by_rule(self, call: ScalingCall, own: tuple[Dims, ...], shapes: Shapes) -> list[Dims | None] | None:
        rule = rule_of(call)
        if rule is None or shapes is None or None in shapes:
            return None
        canonical = tuple(self._canonical(dims) for dims in own)
        dtypes = [tensor.dtype for tensor in tensors_in(call.arguments)]
        found = rule(call, canonical, dtypes, [shape for shape in shapes if shape is not None])
        return None if found is None else list(found)

    def _canonical(self, dims: Dims) -> Dims:
        return tuple(self.found.assumptions.canonical(dim) for dim in dims)

    def _made_by(self, call: ScalingCall) -> Made:
        """The results, as recorded, or as they come out of sizes as recorded."""
        if call.outputs is not None:
            return call.outputs
        sparse = made_sparse(call)
        if sparse is not None:
            return [sparse]
        found = run(call, self.found.dims[call.place], {}, {})
        if isinstance(found, str):
            return None
        return [None if b is None else TensorArgument(None, None, b.dtype, b.shape, b.strides) for b in found]

    def _join_parts(self, call: ScalingCall, own: tuple[Dims, ...]) -> None:
        """Tensors that are put together have all other dims in common."""
        if (
            call.operator == "aten::index"
            and len(call.arguments) > 1
            and isinstance(call.arguments[1], tuple)
        ):
            self._join_mask(call.arguments[1], own)
        if call.operator.startswith(("aten::index_put", "aten::_index_put")) and len(own) > 2:
            join_all(self.found.assumptions, zip(reversed(own[0][1:]), reversed(own[-1][1:]), strict=False))
        if call.operator == "aten::masked_select" and len(own) == 2:
            join_all(self.found.assumptions, zip(reversed(own[0]), reversed(own[1]), strict=False))
        if call.operator in _RECURRENT:
            self._join_states(call, own)
        if call.operator not in ("aten::cat", "aten::stack", "aten::concat"):
            return
        for first, second in pairwise(own):
            for a, b in zip(first, second, strict=False):
                if size_of(a) == size_of(b) and size_of(a) > 1:
                    is_along = call.operator != "aten::stack" and a is first[_at(call, len(first))]
                    if not is_along:
                        join(self.found.assumptions, a, b)

    def _join_states(self, call: ScalingCall, own: tuple[Dims, ...]) -> None:
        """A layer over steps keeps a state for each sample; packed data have rows of all steps."""
        for state in own[1:]:
            if len(state) != 3 or len(own[0]) not in (2, 3):
                continue
            at = 0 if len(own[0]) == 2 or call.arguments[-1] is True else 1
            if len(own[0]) == 2 or size_of(own[0][at]) == size_of(state[1]):
                join(self.found.assumptions, own[0][at], state[1])

    def _join_mask(self, indices: tuple[Argument, ...], own: tuple[Dims, ...]) -> None:
        """A mask is as large as the dims that it picks from."""
        at, masks = 0, iter(own[1:])
        for index in indices:
            is_mask = isinstance(index, TensorArgument) and index.dtype in ("bool", "uint8")
            mask = next(masks, ()) if isinstance(index, TensorArgument) else ()
            if is_mask:
                join_all(self.found.assumptions, zip(own[0][at:], mask, strict=False))
            at += len(mask) if is_mask else 1

    def _guess(self, call: ScalingCall, own: tuple[Dims, ...]) -> None:
        """Results of a call that could not be followed: as its arguments, where sizes agree.

        Any other size of them is an assumption of its own, by what it is beside the batch.
        """
        literals = tuple(self._tensors.literals_of(call).values())
        known = [
            dim
            for dim in (*(d for dims in own for d in dims), *literals)
            if variables_of(self.found.assumptions.canonical(dim))
        ]
        missing = [t for t in call.outputs or () if t is not None and not self._tensors.is_known(t)]
        if not known or (call.outputs is not None and not missing):
            return
        self.found.reasons[call.place] = "cannot be run without data"
        for tensor in missing:
            what = f"a result of {call.operator}"
            dims = [self._guessed((*own, literals), place, what) for place in enumerate(tensor.shape)]
            self._tensors.remember(tensor, tuple(dims))

    def _guessed(self, own: Sequence[Dims], place: tuple[int, int], what: str) -> Dim:
        """A dim of its own, that may grow as another one of its size does."""
        at, size = place
        if size < 2:
            return fixed(size)
        dim = dim_alike(own, at, size)
        if dim is not None and not largest_monomial(self.found.assumptions.canonical(dim)):
            return dim
        (by_size,) = evidence_of_literals((size,), self._batch)
        variable = self.found.assumptions.add(0.5 if dim is not None else by_size, Origin(what, size))
        return growing(size, ((variable, 1),))


def _at(call: ScalingCall, num_dims: int) -> int:
    found = call.arguments[1] if len(call.arguments) > 1 else 0
    return (found if type(found) is int else 0) % max(num_dims, 1)
