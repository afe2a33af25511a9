"""Collective operations: data exchanged between ranks, and how large the message is."""

from __future__ import annotations

from perfcast.core.collective import COLLECTIVES, parse_ranks
from perfcast.core.operation import OperationKind
from perfcast.core.tensor import TensorType
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, RuleTable, bytes_of

COLLECTIVE_RULES = RuleTable()


@COLLECTIVE_RULES.rule(*COLLECTIVES)
def collective(call: OperatorCall) -> OperatorWork:
    """The message is the full, unsharded buffer (see ``core.collective.message_bytes``).

    A call says its group as ``ranks`` and, between two ranks, the other's as ``peer``; its positional
    arguments are the tensors sent, its outputs the tensors received.
    """
    group_size = len(parse_ranks(call.kwargs["ranks"]))
    sent = bytes_of(tuple(t for t in call.args if isinstance(t, TensorType)))
    received = bytes_of(call.outputs)
    match call.operator:
        case "reduce_scatter" | "all_to_all" | "send":
            message = sent
        case "gather_to_root":
            message = sent * group_size
        case "scatter_from_root":
            message = received * group_size
        case _:
            message = received
    said = [(name, call.kwargs[name]) for name in ("ranks", "peer") if name in call.kwargs]
    return OperatorWork(
        OperationKind.COLLECTIVE,
        attributes=(("group_size", group_size), ("message_bytes", message), *said),
    )
