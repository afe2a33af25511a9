"""What is known of every storage while a graph is cut: whole, cut or a summand; and what ranks exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfcast.core.dtype import DType
from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.tensor import Category, TensorType
from perfcast.workload.shard.cuts import Cut, CutDim, Partial, cut_dim, period_of


class ConflictError(Exception):
    """Products of these parameters cannot be cut: what follows needs their results whole.

    Attributes:
        origins: Storages of the parameters.
        reason: In words.
    """

    def __init__(self, origins: frozenset[int], reason: str) -> None:
        super().__init__(reason)
        self.origins = origins
        self.reason = reason


@dataclass(frozen=True, slots=True)
class InsertedCollective:
    """A collective over the tensor-parallel ranks.

    Attributes:
        name: 'all_reduce', 'all_gather', 'reduce_scatter'.
        tensor: Whole type of the message.
        producer: Node that makes the message.
        consumer: First node that needs the result; None where only the optimizer does.
    """

    name: str
    tensor: TensorType
    producer: int
    consumer: int | None


@dataclass
class Spread:
    """States of storages, and collectives, of one walk over the nodes.

    Attributes:
        kept: Storages of parameters that every rank holds whole.
        parameters: Storages of parameters and of their casts → the parameter's storage.
        vocabularies: Columns of the products outside blocks that are cut: those of a vocabulary.
        in_blocks: Of each node whether it is in a block of the model that repeats.
        tables: Module of an embedding → storage of its table.
        sequence_length: Tokens of a sequence where norms are cut along it, else 0.
        slices: (node, input) → dim of which each rank takes its slice of a whole tensor.
        whole: Node → storages that are gathered for it.
        sources: Storage → the one that it is a cast of.
        normed: Parameters over whose cut results the forward takes means or sums.
        filled: Storages that were filled, to be written later.
        producer: Storage → the node that wrote it last.
        gathered: Storages cut along the sequence whose whole is at hand in the present phase.
    """

    graph: Graph
    ranks: int
    kept: frozenset[int]
    parameters: Mapping[int, int]
    sequence_length: int = 0
    vocabularies: frozenset[int] = frozenset()
    in_blocks: Sequence[bool] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    states: dict[int, Cut | Partial] = field(default_factory=dict)
    collectives: list[InsertedCollective] = field(default_factory=list)
    slices: dict[tuple[int, int], CutDim] = field(default_factory=dict)
    whole: dict[int, set[int]] = field(default_factory=dict)
    gathered: set[int] = field(default_factory=set)
    filled: set[int] = field(default_factory=set)
    producer: dict[int, int] = field(default_factory=dict)
    sources: dict[int, int] = field(default_factory=dict)
    normed: set[int] = field(default_factory=set)
    at: int = 0
    phase: Phase = Phase.FORWARD

    @property
    def node(self) -> Node:
        """The present one."""
        return self.graph.nodes[self.at]

    @property
    def operation(self) -> Operation:
        """Operation of the present node."""
        return self.graph.operations[self.node.operation]

    @property
    def decides(self) -> bool:
        """Whether an undecided weight of the present product is to be cut."""
        if self.phase is not Phase.FORWARD or self.node.recomputed:
            return False
        if self.in_blocks[self.at]:
            return True
        columns = self.type_of(self.node.inputs[-1]).shape[-1]
        return columns in self.vocabularies and columns % self.ranks == 0

    @property
    def where(self) -> str:
        """The present node, for messages."""
        return f"{self.operation.name} of {self.node.module or 'the model'}"

    def type_of(self, tensor: int) -> TensorType:
        """Whole type of a tensor."""
        return self.graph.tensors[tensor].type

    def storage_of(self, tensor: int) -> int:
        """Storage that a tensor looks into."""
        return self.graph.tensors[tensor].storage

    def parameter_of(self, tensor: int) -> int | None:
        """Storage of the parameter that a tensor is a view or a cast of, None if it is of none."""
        return self.parameters.get(self.storage_of(tensor))

    def cut_of(self, tensor: int) -> CutDim | None:
        """The cut dim of a tensor; None where it is whole, or gathered for the present node."""
        state = self.states.get(self.storage_of(tensor))
        if not isinstance(state, Cut) or self.storage_of(tensor) in self.whole.get(self.at, ()):
            return None
        return cut_dim(self.type_of(tensor), state.period)

    def is_partial(self, tensor: int) -> bool:
        """Whether ranks hold summands of it."""
        return isinstance(self.states.get(self.storage_of(tensor)), Partial)

    def origins_of(self, tensors: Iterable[int]) -> frozenset[int]:
        """Parameters whose cut the states of these tensors come from."""
        found: frozenset[int] = frozenset()
        for tensor in tensors:
            state = self.states.get(self.storage_of(tensor))
            if state is not None:
                found |= state.origins
        return found

    def is_along_sequence(self, tensor: int) -> bool:
        """Whether the cut is one along the sequence."""
        state = self.states.get(self.storage_of(tensor))
        return isinstance(state, Cut) and not state.origins

    def conflict(self, reason: str) -> ConflictError:
        """The error that the cuts of the present node's inputs do not go together."""
        return ConflictError(self.origins_of(self.node.inputs), f"{self.where}: {reason}")

    # ---- changes ----------------------------------------------------------------------------

    def set_cut(self, tensor: int, dim: int, run: int, origins: frozenset[int]) -> None:
        """A tensor that the present node makes is cut along a dim."""
        storage = self.storage_of(tensor)
        cut = Cut(period_of(self.type_of(tensor), dim, run), origins)
        known = self.states.get(storage)
        if isinstance(known, Cut) and known.period != cut.period:
            raise self.conflict("written with two different cuts")
        if storage in self.producer and known is None and storage not in self.filled:
            raise self.conflict("a cut result is written into a whole tensor")
        self.states[storage] = cut

    def set_partial(self, tensor: int, origins: frozenset[int], dtype: DType | None = None) -> None:
        """Ranks hold summands of a tensor that the present node makes."""
        self.states[self.storage_of(tensor)] = Partial(origins, dtype or self.type_of(tensor).dtype)

    def cut_parameter(self, tensor: int, dim: int, run: int) -> None:
        """Decide how a parameter is cut, by a view or a cast of it.

        Raises:
            ConflictError: It is cut another way already, or is to stay whole.
        """
        parameter = self.parameter_of(tensor)
        assert parameter is not None
        cut = Cut(period_of(self.type_of(tensor), dim, run), frozenset({parameter}))
        for storage, owner in self.parameters.items():
            if owner == parameter:
                known = self.states.get(storage)
                if known is not None and known != cut:
                    raise ConflictError(frozenset({parameter}), f"{self.where}: its weight is cut two ways")
                self.states[storage] = cut

    def reduce(self, tensor: int) -> None:
        """Sum up the summands of a tensor before the present node reads it."""
        storage = self.storage_of(tensor)
        state, producer = self.states[storage], self.producer[storage]
        assert isinstance(state, Partial)
        whole = replace(self.type_of(tensor), dtype=state.dtype)
        cut = self._sequence_cut(whole)
        if cut is not None:
            self.collectives.append(InsertedCollective("reduce_scatter", whole, producer, self.at))
            self.states[storage] = cut
        else:
            self.collectives.append(InsertedCollective("all_reduce", whole, producer, self.at))
            del self.states[storage]

    def _sequence_cut(self, tensor: TensorType) -> Cut | None:
        """The cut of hidden states along the sequence, where they are to be cut so."""
        if not self.sequence_length or len(tensor.shape) < 2 or tensor.num_elements == tensor.shape[-1]:
            return None
        rows = tensor.num_elements // tensor.shape[-1]
        return Cut(self.sequence_length * tensor.shape[-1]) if rows % self.sequence_length == 0 else None

    def gather(self, tensor: int) -> None:
        """Have the whole of a tensor that is cut along the sequence for the present node."""
        storage = self.storage_of(tensor)
        source = self.sources.get(storage, storage)
        if source not in self.gathered:
            self.gathered.add(source)
            producer = self.producer.get(storage, self.at)
            self.collectives.append(InsertedCollective("all_gather", self.type_of(tensor), producer, self.at))
        self.whole.setdefault(self.at, set()).add(storage)

    def slice_input(self, position: int, dim: int, run: int) -> None:
        """Each rank reads its slice of a whole input of the present node; a parameter is cut for good."""
        tensor = self.node.inputs[position]
        if self.parameter_of(tensor) is not None and self.parameter_of(tensor) not in self.kept:
            self.cut_parameter(tensor, dim, run)
        else:
            self.slices[self.at, position] = CutDim(dim, run)


def parameters_of(graph: Graph) -> dict[int, int]:
    """Storages of parameters and of their casts → the parameter's storage."""
    owners = {i: i for i, s in enumerate(graph.storages) if s.category == Category.PARAMETER}
    for node in graph.nodes:
        if node.phase is Phase.OPTIMIZER or len(node.inputs) != 1 or len(node.outputs) != 1:
            continue
        operation = graph.operations[node.operation]
        source, target = (graph.tensors[t] for t in (node.inputs[0], node.outputs[0]))
        is_cast = operation.kind is OperationKind.COPY and source.type.shape == target.type.shape
        if is_cast and source.storage in owners and source.type.strides == target.type.strides:
            owners[target.storage] = owners[source.storage]
    return owners
