"""Tensor parallelism of a captured graph: what is cut, what a rank runs, what ranks exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, TensorType
from perfcast.errors import PlanError
from perfcast.workload.shard.cuts import Cut, CutDim, Partial, cut_dim, local_type
from perfcast.workload.shard.local import local_operation
from perfcast.workload.shard.parts import Parts
from perfcast.workload.shard.rules import apply_rule
from perfcast.workload.shard.state import ConflictError, InsertedCollective, Spread, parameters_of

_PRODUCTS = (OperationKind.MATMUL, OperationKind.BATCHED_MATMUL, OperationKind.GROUPED_MATMUL)


@dataclass(frozen=True)
class Cutting:
    """A graph cut over tensor-parallel ranks.

    Attributes:
        graph: The whole one.
        operations: Of each node, what one rank runs.
        states: Storage → how it is cut; whole where absent.
        collectives: In the order of their consumers.
        notes: What stays whole, and why.
    """

    graph: Graph
    ranks: int
    operations: Sequence[Operation]
    states: Mapping[int, Cut]
    collectives: Sequence[InsertedCollective] = ()
    notes: tuple[str, ...] = ()

    def local(self, tensor: int) -> TensorType:
        """What one rank holds of a tensor."""
        entry = self.graph.tensors[tensor]
        state = self.states.get(entry.storage)
        if state is None:
            return entry.type
        cut = cut_dim(entry.type, state.period)
        return local_type(entry.type, cut, state.period, self.ranks, "the model")

    def local_bytes(self, storage: int) -> int:
        """Bytes that one rank holds of a storage."""
        whole = self.graph.storages[storage].num_bytes
        return whole // self.ranks if storage in self.states else whole


def cut_graph(graph: Graph, parts: Parts, ranks: int, *, sequence_parallel: bool = False) -> Cutting:
    """Cut the products of a graph over ``ranks`` ranks.

    Raises:
        PlanError: A dim does not divide, or no product can be cut.
    """
    if ranks == 1:
        return Cutting(graph, 1, [graph.operations[node.operation] for node in graph.nodes], {})
    length = _sequence_length(graph, ranks) if sequence_parallel else 0
    kept: frozenset[int] = frozenset()
    notes: dict[str, None] = {}
    while True:
        try:
            spread = _walk(graph, parts, ranks, kept, length)
            break
        except ConflictError as conflict:
            if not conflict.origins - kept:
                raise PlanError(f"tp={ranks} cannot cut this graph: {conflict.reason}") from conflict
            kept |= conflict.origins
            notes[f"tp={ranks} leaves weights whole: {conflict.reason}"] = None
    if not any(isinstance(state, Cut) and state.origins for state in spread.states.values()):
        raise PlanError(
            f"tp={ranks}: no product of a block with a weight can be cut"
            + "".join(f"; {note}" for note in notes)
            + "; dp, and pp between blocks, can be used"
        )
    _finish_gradients(spread)
    operations = [_localize(spread, index) for index in range(len(graph.nodes))]
    states = {s: state for s, state in spread.states.items() if isinstance(state, Cut)}
    return Cutting(graph, ranks, operations, states, spread.collectives, _shorten(notes))


def _shorten(notes: Mapping[str, None], most: int = 3) -> tuple[str, ...]:
    """The first few."""
    listed = list(notes)
    more = [f"… and {len(listed) - most} more of the kind"] if len(listed) > most else []
    return tuple(listed[:most] + more)


def _walk(graph: Graph, parts: Parts, ranks: int, kept: frozenset[int], sequence_length: int) -> Spread:
    """Spread cuts over all nodes but the optimizer's.

    Raises:
        ConflictError: Some product must stay whole.
        PlanError: A dim does not divide.
    """
    tables, vocabularies = _tables(graph)
    spread = Spread(
        graph, ranks, kept, parameters_of(graph), sequence_length, vocabularies, parts.in_blocks, tables
    )
    _cut_tables(spread)
    for index, node in enumerate(graph.nodes):
        if node.phase is Phase.OPTIMIZER:
            continue
        if node.phase is not spread.phase:
            spread.phase = node.phase
            spread.gathered.clear()
        spread.at = index
        if not _stays_partial(spread):
            _apply(spread)
        for tensor in node.outputs:
            storage = graph.tensors[tensor].storage
            spread.producer[storage] = index
            if spread.operation.kind is OperationKind.COPY and len(node.inputs) == 1:
                source = graph.tensors[node.inputs[0]].storage
                spread.sources[storage] = spread.sources.get(source, source)
            if spread.operation.kind in (OperationKind.FILL, OperationKind.ALLOCATION):
                spread.filled.add(storage)
    return spread


def _apply(spread: Spread) -> None:
    """The rule of the present node; where it has none for a sequence that is cut, on the whole of it."""
    try:
        apply_rule(spread)
    except ConflictError:
        along = [t for t in spread.node.inputs if spread.is_along_sequence(t) and spread.cut_of(t)]
        if not along:
            raise
        for tensor in along:
            spread.gather(tensor)
        apply_rule(spread)


# ---- vocabulary ---------------------------------------------------------------------------------


def _tables(graph: Graph) -> tuple[dict[str, int], frozenset[int]]:
    """Module → its embedding table; and the rows of tables that are columns of a product as well."""
    owners = parameters_of(graph)
    tables: dict[str, int] = {}
    rows: dict[int, None] = {}
    columns: set[int] = set()
    for node in graph.nodes:
        if node.phase is not Phase.FORWARD or not node.inputs:
            continue
        kind = graph.operations[node.operation].kind
        if kind is OperationKind.EMBEDDING:
            tables[node.module] = graph.tensors[node.inputs[0]].storage
            rows[graph.tensors[node.inputs[0]].type.shape[0]] = None
        elif kind is OperationKind.MATMUL and graph.tensors[node.inputs[-1]].storage in owners:
            columns.add(graph.tensors[node.inputs[-1]].type.shape[-1])
    return tables, frozenset(columns.intersection(rows))


def _cut_tables(spread: Spread) -> None:
    """Tables of a vocabulary are cut by rows, as the head is by columns, if they divide."""
    for storage in set(spread.tables.values()):
        size = next(t.type for t in spread.graph.tensors if t.storage == storage)
        is_vocabulary = len(size.shape) == 2 and size.shape[0] in spread.vocabularies
        if is_vocabulary and storage not in spread.kept and size.shape[0] % spread.ranks == 0:
            cut = Cut(size.num_elements, frozenset({storage}))
            spread.states |= {s: cut for s, owner in spread.parameters.items() if owner == storage}


# ---- summands -----------------------------------------------------------------------------------


def _stays_partial(spread: Spread) -> bool:
    """Let sums and copies of summands be summands; have other readers wait for the sum."""
    node, operation = spread.node, spread.operation
    partial = [tensor for tensor in node.inputs if spread.is_partial(tensor)]
    if not partial:
        return False
    if operation.kind is OperationKind.COPY and operation.name != "cat" and len(node.inputs) == 1:
        is_linear = True
    elif operation.kind is OperationKind.ELEMENTWISE and operation.name.rstrip("_") in ("add", "sub"):
        is_linear = len(partial) == len(node.inputs)
    else:
        is_linear = operation.kind is OperationKind.REDUCTION and operation.name == "sum"
    if is_linear and all(spread.type_of(t).num_elements > 1 for t in node.outputs):
        origins, dtype = spread.origins_of(partial), _narrowest(spread, partial)
        for output in node.outputs:
            spread.set_partial(output, origins, dtype)
        return True
    for tensor in partial:
        if spread.is_partial(tensor):
            spread.reduce(tensor)
    return False


def _narrowest(spread: Spread, partial: Sequence[int]) -> DType:
    """Sums of summands are exchanged in the type that the products left, whatever they are cast to."""
    states = [spread.states[spread.storage_of(tensor)] for tensor in partial]
    return min((s.dtype for s in states if isinstance(s, Partial)), key=lambda dtype: dtype.bytes_of(8))


def _finish_gradients(spread: Spread) -> None:
    """Gradients of whole weights of which every rank has a summand."""
    for storage, state in list(spread.states.items()):
        if not isinstance(state, Partial):
            continue
        if spread.graph.storages[storage].category == Category.GRADIENT:
            tensor = next(t.type for t in reversed(spread.graph.tensors) if t.storage == storage)
            spread.collectives.append(
                InsertedCollective("all_reduce", tensor, spread.producer[storage], None)
            )
        del spread.states[storage]


# ---- local operations ---------------------------------------------------------------------------


def _localize(spread: Spread, index: int) -> Operation:
    """What one rank runs at a node."""
    node = spread.graph.nodes[index]
    operation = spread.graph.operations[node.operation]
    if node.phase is Phase.OPTIMIZER:
        return operation
    where = _describe(operation, node.module)
    inputs = [
        _local(spread, tensor, spread.slices.get((index, position)), index, where)
        for position, tensor in enumerate(node.inputs)
    ]
    outputs = [_local(spread, tensor, None, index, where) for tensor in node.outputs]
    if len(inputs) != len(operation.inputs) or len(outputs) != len(operation.outputs):
        return operation
    return local_operation(operation, inputs, outputs)


def _describe(operation: Operation, module: str) -> str:
    sizes = dict(operation.attributes)
    words = ", ".join(f"{name}={sizes[name]}" for name in ("m", "n", "k") if name in sizes)
    return f"{operation.name} of {module or 'the model'}" + (f" ({words})" if words else "")


def _local(spread: Spread, tensor: int, part: CutDim | None, index: int, where: str) -> TensorType:
    whole, storage = spread.type_of(tensor), spread.storage_of(tensor)
    if part is not None:
        return local_type(whole, part, 0, spread.ranks, where)
    state = spread.states.get(storage)
    if not isinstance(state, Cut) or storage in spread.whole.get(index, ()):
        return whole
    return local_type(whole, cut_dim(whole, state.period), state.period, spread.ranks, where)


def _sequence_length(graph: Graph, ranks: int) -> int:
    """Tokens of a sequence: the last dim of the first input.

    Raises:
        PlanError: It has none, or does not divide.
    """
    inputs = {i for i, storage in enumerate(graph.storages) if storage.category == Category.INPUT}
    shape = next(
        (t.type.shape for t in graph.tensors if t.storage in inputs and len(t.type.shape) == 2), None
    )
    if shape is None:
        raise PlanError("sp=1: the graph has no input [sequences, tokens] to cut along; use sp=0")
    if shape[1] % ranks:
        raise PlanError(f"sp=1: tp={ranks} does not divide a sequence of {shape[1]}")
    return shape[1]
