"""FLOP and byte rules: what work an operator is, from the types of its arguments alone."""

from __future__ import annotations

from perfcast.core.operation import Operation, OperationKind
from perfcast.workload.rules.attention import ATTENTION
from perfcast.workload.rules.collectives import COLLECTIVE_RULES
from perfcast.workload.rules.convolutions import CONVOLUTIONS
from perfcast.workload.rules.elementwise import ELEMENTWISE
from perfcast.workload.rules.movement import MOVEMENT
from perfcast.workload.rules.optimizers import OPTIMIZERS
from perfcast.workload.rules.products import PRODUCTS
from perfcast.workload.rules.recurrent import RECURRENT
from perfcast.workload.rules.registry import OperatorCall, OperatorWork, Rule, operation_from
from perfcast.workload.rules.rows import ROWS

__all__ = ["RULES", "OperatorCall", "OperatorWork", "Rule", "operation_of"]

RULES: dict[str, Rule] = {
    **PRODUCTS,
    **CONVOLUTIONS,
    **ATTENTION,
    **RECURRENT,
    **ROWS,
    **ELEMENTWISE,
    **MOVEMENT,
    **OPTIMIZERS,
    **COLLECTIVE_RULES,
}


def operation_of(call: OperatorCall) -> Operation:
    """The operation that a call is.

    An operator in place (``add_``) follows the rule of its sibling. One without a rule becomes an
    operation of unknown kind whose traffic is its inputs and outputs: a bound, marked as such.
    """
    rule = RULES.get(call.operator) or RULES.get(call.operator.removesuffix("_"))
    return operation_from(call, rule(call) if rule else OperatorWork(OperationKind.UNKNOWN))
