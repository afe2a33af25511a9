"""What operators of a recording say of themselves, as attributes and tensors of Chakra's nodes.

Names and types of the attributes are those that MLCommons' converter writes. With an execution trace they are
its nodes' own; a timeline alone tells fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.traces.chakra.trace import ChakraAttribute, ChakraTensors
from perfcast.traces.events import NONE, Category, Collective, Trace
from perfcast.traces.execution_trace.nodes import ExecutionTrace, Node, Opaque, TensorUse, Value
from perfcast.traces.link.traces import link, repaired

#: Callers above the record of a collective that may be the operator which the timeline shows.
_MAX_CALLERS = 4


@dataclass(frozen=True)
class OperatorDetails:
    """What is known of each event of a timeline; ``nodes`` by row, empty without execution trace."""

    trace: Trace
    nodes: Mapping[int, Node]
    collectives: Mapping[int, Collective]

    @classmethod
    def of(cls, trace: Trace, execution_trace: ExecutionTrace | None) -> OperatorDetails:
        """Join the two.

        Raises:
            TraceError: They do not belong together.
        """
        if execution_trace is None:
            return cls(trace, {}, {})
        found = link(execution_trace, trace)
        whole = repaired(execution_trace, trace, found)
        nodes = {row: whole.by_id[node_id] for node_id, row in found.rows.items()}
        collectives: dict[int, Collective] = {}
        for collective in whole.collectives:
            at = collective.row
            for _ in range(_MAX_CALLERS):
                collectives.setdefault(found.rows.get(at, NONE), collective)
                at = whole.by_id[at].parent if at in whole.by_id else at
        collectives.pop(NONE, None)
        return cls(trace, nodes, collectives)

    def attributes(self, row: int) -> tuple[ChakraAttribute, ...]:
        """Numbers and schema of an operator; nothing for ``NONE``."""
        if row == NONE:
            return ()
        node, events = self.nodes.get(row), self.trace.events
        if node is not None:
            numbers = {
                "rf_id": node.record_function_id,
                "fw_parent": node.forward_parent,
                "seq_id": node.sequence_number,
                "scope": node.scope,
                "tid": node.thread,
                "fw_tid": node.forward_thread,
            }
            schema = (ChakraAttribute("op_schema", "string", node.schema),) if node.schema else ()
            return (*_whole_numbers(numbers), *schema)
        thread = int(events.threads[row])
        numbers = {
            "rf_id": int(events.record_function_ids[row]),
            "seq_id": int(events.sequence_numbers[row]),
            "tid": events.threads_table[thread].number if thread != NONE else NONE,
        }
        return _whole_numbers({name: number for name, number in numbers.items() if number != NONE})

    def tensors(self, row: int) -> tuple[ChakraTensors | None, ChakraTensors | None]:
        """Inputs and outputs of an operator, as far as they were recorded."""
        if row == NONE:
            return None, None
        node = self.nodes.get(row)
        if node is not None:
            return _tensors(node.inputs, node.input_types), _tensors(node.outputs, node.output_types)
        inputs = self.trace.events.inputs_of(row)
        if inputs is None or self.trace.events.category(row) is not Category.OPERATOR:
            return None, None
        shapes = str(_listed(inputs.shapes))
        return ChakraTensors(str(list(inputs.values)), shapes, str(list(inputs.types))), None

    def fuller(self, collective: Collective, host_row: int) -> Collective:
        """What an execution trace says of a collective, where the timeline does not tell its size."""
        if collective.in_elements:
            return collective
        return self.collectives.get(host_row, collective)


def _whole_numbers(numbers: Mapping[str, int]) -> tuple[ChakraAttribute, ...]:
    """Those that 64 bits hold."""
    return tuple(
        ChakraAttribute(name, "int64", number)
        for name, number in numbers.items()
        if -(2**63) <= number < 2**63
    )


def _tensors(values: tuple[Value, ...], types: tuple[str, ...]) -> ChakraTensors | None:
    if not values:
        return None
    return ChakraTensors(str([_plain(v) for v in values]), str([_shape(v) for v in values]), str(list(types)))


def _plain(value: Value) -> object:
    """As execution traces have it: a tensor is [id, storage, offset, elements, bytes of one, device]."""
    if isinstance(value, TensorUse):
        return [
            value.tensor_id,
            value.storage_id,
            value.offset_elements,
            value.num_elements,
            value.element_bytes,
            value.device,
        ]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Opaque):
        return f"<{value.kind}>"
    return "<None>" if value is None else value


def _shape(value: Value) -> object:
    if isinstance(value, TensorUse):
        return list(value.shape)
    return [_shape(item) for item in value] if isinstance(value, tuple) else []


def _listed(value: object) -> object:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
