"""What recorded tensors are made of: those that calls made, windows onto their memory, those from outside."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from perfcast.traces.scaling.assumptions import Assumptions, Origin
from perfcast.traces.scaling.blanks.run import parameters_of
from perfcast.traces.scaling.extents import Dim, Factor, Powers, Term, fixed, growing, regrouped
from perfcast.traces.scaling.primes import Place
from perfcast.traces.scaling.recorded.calls import ScalingCall, TensorArgument, tensors_in
from perfcast.traces.scaling.rules import Dims, Shape
from perfcast.traces.scaling.sources import (
    BEHIND_THE_BATCH,
    DATA_MAKERS,
    DIVIDED,
    IS_BATCH,
    MATRICES,
    PARAMETERS,
    SIZES,
    evidence_of_given,
    evidence_of_literals,
)
from perfcast.traces.scaling.sparse import holds_as_before, makes_sparse, parts_held, told
from perfcast.traces.scaling.windows import by_strides, is_dense, is_repeated

#: Optimizers' operators: what they write into, and was there before, are parameters and their states.
_OPTIMIZER = "Optimizer.step#"
_UPDATES = ("aten::_foreach_", "aten::_fused_", "aten::addcdiv_", "aten::addcmul_", "aten::lerp_")
#: Makes gradients of tables that are sparse.
_SPARSE = "aten::_sparse_coo_tensor"
_MOST = 2**62
_MOST_OTHERS = 3
_MATRIX = 2  # dims of a weight that activations easily have the sizes of


def parameters_among(calls: Sequence[ScalingCall]) -> set[Hashable]:
    """Storages that an operator calls a weight, or that an optimizer writes into.

    Where the recording does not say which tensor is which: shapes of tables with sparse gradients.
    """
    found: set[Hashable] = set()
    last = -1
    for call in calls:
        if call.operator.startswith(_SPARSE) and call.outputs is None and len(call.arguments) > 2:
            found.update(
                argument for argument in call.arguments[2:4] if isinstance(argument, tuple) and argument
            )
        if call.operator.startswith(_OPTIMIZER):
            last = max(last, call.last_below)
        is_update = call.operator.startswith(_UPDATES) or call.place <= last
        described = parameters_of(call.operator, call.overload) if call.is_operator else ()
        for parameter, value in zip(described, call.arguments, strict=False):
            if parameter.name in PARAMETERS or (is_update and parameter.is_written):
                found.update(t.storage for t in tensors_in(value) if t.storage is not None)
    return found


class Tensors:
    """The makeup of all tensors that calls have seen so far, and of literal sizes by place of their call."""

    def __init__(
        self, assumptions: Assumptions, batch: int, world_size: int, parameters: set[Hashable]
    ) -> None:
        self.assumptions = assumptions
        self.literals: dict[int, dict[Place, Dim]] = {}
        self.batch, self._world_size = batch, world_size
        self._parameters = parameters
        self._known: dict[Hashable, Dims] = {}
        self._windows: dict[Hashable, list[TensorArgument]] = {}
        self._held: dict[Hashable, tuple[Dims, Dims]] = {}  # places and values of sparse tensors
        self._made: set[Hashable] = set()  # storages that calls made
        self._pending: list[tuple[str, Shape, Powers]] = []
        self._cut: dict[Shape, Dims | None] = {}  # what forward operators took parts of, where one alone fits
        self._others: dict[Hashable, list[Dims]] = {}  # of tensors that nothing tells apart: earlier makeups

    def is_known(self, tensor: TensorArgument) -> bool:
        """Whether a tensor has been seen."""
        return key_of(tensor) in self._known

    def made(self, tensor: TensorArgument) -> None:
        """Note that a call made a tensor."""
        if tensor.storage is not None:
            self._made.add(tensor.storage)

    def expect(self, dtype: str, rest: Shape, powers: Powers) -> None:
        """Note that a search among data makes rows like these, as many as nothing recorded says."""
        self._pending.append((dtype, rest, powers))

    def dims_of(self, tensor: TensorArgument, call: ScalingCall, name: str) -> Dims:
        """Of an argument, by the name of its parameter; one that is not known yet comes from outside."""
        key = key_of(tensor)
        if key in self._known:
            return self._known[key]
        found = self.window(tensor)
        if found is None:
            is_matrix = name in MATRICES and self.batch not in tensor.shape[:1]
            found = self._given(tensor, call, is_parameter=name in PARAMETERS or is_matrix)
        self.remember(tensor, found)
        return found

    def remember(self, tensor: TensorArgument, dims: Dims) -> None:
        """Know a tensor from here on."""
        key = key_of(tensor)
        before = self._known.get(key)
        if tensor.key is None and before is not None:
            different = [before, *self._others.get(key, ())]
            canonical = self.canonical(dims)
            self._others[key] = [own for own in different if self.canonical(own) != canonical][:_MOST_OTHERS]
        self._known[key] = dims
        if tensor.storage is not None:
            self._windows.setdefault(tensor.storage, []).append(tensor)

    def doubt(self, tensor: TensorArgument, dims: Dims | None) -> None:
        """Know that a tensor may be made of something else."""
        known = self.canonical(self._known[key_of(tensor)])
        if tensor.key is None and dims is not None and self.canonical(dims) != known:
            others = self._others.setdefault(key_of(tensor), [])
            if self.canonical(dims) not in map(self.canonical, others):
                others.insert(0, dims)
                del others[_MOST_OTHERS:]

    def canonical(self, dims: Dims) -> Dims:
        """In variables that stand for themselves."""
        return tuple(self.assumptions.canonical(dim) for dim in dims)

    def options(self, tensor: TensorArgument, own: Dims, name: str) -> list[Dims]:
        """What a tensor may be made of: as the last one like it, as earlier ones, or as a parameter."""
        if tensor.key is not None:
            return [own]
        found = [own, *self._others.get(key_of(tensor), ())]
        stays = tuple(fixed(size) for size in tensor.shape)
        if name in PARAMETERS and len(stays) <= _MATRIX and self.canonical(own) != stays:
            found.insert(0, stays)
        return found

    def window(self, tensor: TensorArgument) -> Dims | None:
        """Another window onto memory that is known, by sizes and strides."""
        for other in reversed(self._windows.get(tensor.storage, ()) if tensor.storage is not None else ()):
            dims = self._known[key_of(other)]
            is_ordered = is_dense(other) and is_dense(tensor)
            if other.shape == tensor.shape and (other.strides == tensor.strides or is_ordered):
                return dims
            if _count(other.shape) == _count(tensor.shape) and is_ordered:
                taken = regrouped(dims, tensor.shape)
                if taken is not None:
                    return tuple(taken)
            found = by_strides(tensor, other, dims)
            if found is not None:
                return found
        return None

    def _given(self, tensor: TensorArgument, call: ScalingCall, *, is_parameter: bool) -> Dims:
        if is_parameter or _memory(tensor) in self._parameters:
            what = f"how often an argument of {call.operator} is repeated"
            return tuple(
                self.assumed(size, what) if is_repeated(tensor, at) else fixed(size)
                for at, size in enumerate(tensor.shape)
            )
        pending = self._searched(tensor)
        if pending is not None:
            return pending
        is_made = tensor.storage in self._made if tensor.storage is not None else False
        return self.from_outside(
            tensor.shape, tensor.dtype, f"an argument of {call.operator}", is_data=not is_made,
            is_alone=tensor.key is None,
        )  # fmt: skip

    def from_outside(
        self,
        shape: Shape,
        dtype: str,
        what: str,
        *,
        is_data: bool,
        is_made: bool = False,
        is_alone: bool = False,
    ) -> Dims:
        """Sizes that no operator made, each a variable of its own.

        Args:
            what: Where they come from, in words.
            is_data: Whether they may be of what a program feeds its model.
            is_made: Whether the recorded step made the tensor.
            is_alone: Whether nothing tells it from others of its sizes: what samples of more than one dim
                meet is then no evidence against them.
        """
        is_made = is_made or (is_alone and len(shape) > _MATRIX)
        evidence = evidence_of_given(shape, dtype, self.batch, is_data=is_data, is_made=is_made)
        everyone = self.batch * self._world_size
        if self._world_size > 1 and shape and shape[0] == everyone:
            evidence[0] = max(evidence[0], 1.0)
        if len(shape) == 1 and shape[0] == self.batch + 1 and dtype.startswith("int"):
            variable = self.assumptions.add(2.0, Origin(what, shape[0]))
            return (((Factor((Term(self.batch, ((variable, 1),)), Term(1)))),),)
        return tuple(self._of_samples(size, own, what) for size, own in zip(shape, evidence, strict=True))

    def _of_samples(self, size: int, evidence: float, what: str) -> Dim:
        """A size from outside; of batches of all ranks, one behind the other, samples are the inner part."""
        if size <= 1 or evidence == BEHIND_THE_BATCH:
            return fixed(size)
        powers = ((self.assumptions.add(evidence, Origin(what, size)), 1),)
        if self._world_size > 1 and size == self.batch * self._world_size:
            return (*fixed(self._world_size), *growing(self.batch, powers))
        return growing(size, powers)

    def _searched(self, tensor: TensorArgument) -> Dims | None:
        """A tensor of an unknown maker that a search among data may have made."""
        for dtype, rest, powers in reversed(self._pending):
            if tensor.dtype == dtype and tensor.shape[1:] == rest and tensor.shape and tensor.shape[0] > 1:
                return (growing(tensor.shape[0], powers), *(fixed(size) for size in rest))
        return None

    def hold(
        self, call: ScalingCall, made: Sequence[TensorArgument | None] | None, own: tuple[Dims, ...]
    ) -> None:
        """Note what a sparse tensor holds: what it is made of, or what the one before held."""
        result = next((tensor for tensor in made or () if tensor is not None), None)
        if result is None:
            return
        found: tuple[Dims, Dims] | None = None
        if makes_sparse(call.operator):
            found = parts_held(call, own)
        elif holds_as_before(call.operator):
            given = next(tensors_in(call.arguments), None)
            found = None if given is None else self._held.get(key_of(given))
        if found is not None:
            self._held[key_of(result)] = found

    def held(self, call: ScalingCall) -> Dims | None:
        """What an operator tells of a sparse tensor, where it is known."""
        which, given = told(call.operator), next(tensors_in(call.arguments), None)
        found = None if given is None else self._held.get(key_of(given))
        return None if found is None or which is None else found[which]

    def note_cut(self, shape: Shape, dims: Dims) -> None:
        """Note what a part is taken of: its gradient is made in the same sizes again."""
        known = self._cut.get(shape, dims)
        is_one = known is not None and self.canonical(known) == self.canonical(dims)
        self._cut[shape] = dims if is_one else None

    def literals_of(self, call: ScalingCall) -> dict[Place, Dim]:
        """Numbers among the arguments that are sizes, each something of its own."""
        known = self.literals.get(call.place)
        if known is not None:
            return known
        found: dict[Place, Dim] = {}
        tensors = any(True for _ in tensors_in(call.arguments))
        for index, (parameter, value) in enumerate(
            zip(parameters_of(call.operator, call.overload), call.arguments, strict=False)
        ):
            if parameter.name not in SIZES or isinstance(value, bool):
                continue
            numbers = value if isinstance(value, tuple) else (value,)
            if not all(type(number) is int for number in numbers):
                continue
            sizes = tuple(number for number in numbers if isinstance(number, int))
            if tensors:
                dims = self._beside(sizes, call)
            else:
                what = f"a tensor of {call.operator}"
                dtype = "int64" if call.operator in ("aten::randint", "aten::arange") else _dtype_made(call)
                is_data = call.operator in DATA_MAKERS
                dims = self.from_outside(sizes, dtype, what, is_data=is_data, is_made=True)
            found |= {
                (index, inner if isinstance(value, tuple) else None): dim for inner, dim in enumerate(dims)
            }
        if found:
            self.literals[call.place] = found
        return found

    def _beside(self, sizes: tuple[int, ...], call: ScalingCall) -> Dims:
        """Sizes that an operator takes beside its tensors, each a variable of its own.

        A gradient of parts is made as large as what they were taken of.
        """
        whole = self._cut.get(sizes) if call.operator.endswith("_backward") else None
        if whole is not None:
            return whole
        evidence = evidence_of_literals(sizes, self.batch)
        what = f"a size given to {call.operator}"
        return tuple(self._variable(size, own, what) for size, own in zip(sizes, evidence, strict=True))

    def assumed(self, size: int, what: str) -> Dim:
        """A size of which only what it is beside the batch speaks for following it, or against."""
        (evidence,) = evidence_of_literals((size,), self.batch)
        return self._variable(size, evidence, what)

    def counted(self, size: int, count: int, what: str) -> Dim:
        """A size that as many parts make as there are samples, or a multiple."""
        evidence = IS_BATCH if count == self.batch else DIVIDED
        return self._variable(size, evidence, what)

    def parts(self, sizes: Sequence[int], evidence: float, what: str) -> Dims:
        """Parts of a dim, which all follow the batch or do not."""
        powers = ((self.assumptions.add(evidence, Origin(what, max(sizes))), 1),)
        return tuple(growing(size, powers) if size > 1 else fixed(size) for size in sizes)

    def _variable(self, size: int, evidence: float, what: str) -> Dim:
        if not 1 < size < _MOST:
            return fixed(size)
        return growing(size, ((self.assumptions.add(evidence, Origin(what, size)), 1),))


def _dtype_made(call: ScalingCall) -> str:
    made = next((tensor for tensor in call.outputs or () if tensor is not None), None)
    return made.dtype if made is not None else "float32"


def key_of(tensor: TensorArgument) -> Hashable:
    """What a tensor is known by; of one that the recording does not name, its type, sizes and strides."""
    if tensor.key is not None:
        return tensor.key
    return (tensor.dtype, tensor.shape, tensor.strides)


def _memory(tensor: TensorArgument) -> Hashable:
    """A tensor's storage; where that is not recorded, its sizes."""
    return tensor.shape if tensor.storage is None else tensor.storage


def _count(shape: Sequence[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found
