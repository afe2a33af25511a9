"""What a collective operation says beyond its tensors: how large its message is, and between which ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import pairwise
from typing import overload

from perfcast.core.arrays import Floats
from perfcast.core.dtype import DType
from perfcast.core.model.token_routing import TokenRouting
from perfcast.core.operation import AttributeValue, Operation, OperationKind
from perfcast.errors import UnknownNameError

#: Names of collective operations; ``send`` and ``receive`` are between two ranks of the group, ``dispatch``
#: takes tokens to experts, or back, with one copy for each place (``core.model.token_routing``).
COLLECTIVES = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "dispatch",
    "gather_to_root",
    "receive",
    "reduce",
    "reduce_scatter",
    "scatter_from_root",
    "send",
)

_ROUTING = tuple(field.name for field in fields(TokenRouting))


def message_bytes(operation: Operation) -> int:
    """Bytes of the full, unsharded buffer of a collective operation (the convention of NCCL's tests).

    All-gather: what every rank has received in the end; reduce-scatter: what every rank puts in;
    all-to-all: what one rank sends, to itself too; dispatch: its tokens, a copy for each of their experts;
    all-reduce, broadcast, reduce: the buffer, which is equal on all ranks; gather and scatter: the root's
    buffer; send and receive: the message.

    Raises:
        ValueError: It is not a collective.
    """
    value = operation.attribute("message_bytes")
    if not isinstance(value, int):
        raise ValueError(f"{operation.name} is not a collective operation")
    return value


def group_ranks(operation: Operation) -> Sequence[int]:
    """Global ranks of the group of a collective operation, in the group's order.

    Raises:
        ValueError: It is not a collective.
    """
    value = operation.attribute("ranks")
    if not isinstance(value, str):
        raise ValueError(f"{operation.name} is not a collective operation")
    return parse_ranks(value)


def reads_peers(operation: Operation) -> bool:
    """Whether the program has a kernel of its own for a collective, beside NCCL's."""
    return operation.attribute("reads_peers") is True


def format_ranks(ranks: Sequence[int]) -> str:
    """``'0:64:8'`` (start, stop, stride) for ranks that are evenly spaced, else ``'0,1,8,9'``."""
    stride = ranks[1] - ranks[0] if len(ranks) > 1 else 1
    is_range = isinstance(ranks, range) and stride > 0
    if is_range or (stride > 0 and all(b - a == stride for a, b in pairwise(ranks))):
        return f"{ranks[0]}:{ranks[-1] + stride}:{stride}"
    return ",".join(map(str, ranks))


def parse_ranks(text: str) -> Sequence[int]:
    """The inverse of ``format_ranks``."""
    if ":" in text:
        return range(*map(int, text.split(":")))
    return tuple(map(int, text.split(",")))


def collective_operation(
    collective: str,
    message_bytes: int,
    ranks: Sequence[int],
    dtype: DType = DType.BF16,
    *,
    num_groups: int = 1,
    routing: TokenRouting | None = None,
    reads_peers: bool = False,
) -> Operation:
    """A collective as an operation without tensors, such as a plan asks for.

    Args:
        reads_peers: Whether the program has a kernel of its own that reads the other ranks' memory.
        num_groups: Groups of this shape, on other devices, that exchange at the same time.
        routing: Of a dispatch, where its tokens go.

    Raises:
        UnknownNameError: Not a collective.
        ValueError: A message of fewer than no bytes, or no ranks.
    """
    if collective not in COLLECTIVES:
        raise UnknownNameError("collective", collective, COLLECTIVES, f"Known: {', '.join(COLLECTIVES)}.")
    if (collective == "dispatch") != (routing is not None):
        raise ValueError(f"a {collective} with routing {routing}: a dispatch, and nothing else, has one")
    if message_bytes < 0 or not len(ranks):
        raise ValueError(f"a {collective} of {message_bytes} bytes among {len(ranks)} ranks")
    facts: dict[str, AttributeValue] = {
        "message_bytes": message_bytes,
        "num_groups": num_groups,
        "ranks": format_ranks(ranks),
    }
    if reads_peers:
        facts["reads_peers"] = True
    if routing is not None:
        facts |= {f"routing_{name}": getattr(routing, name) for name in _ROUTING}
    return Operation(
        OperationKind.COLLECTIVE,
        collective,
        (),
        (),
        dtype,
        0,
        0,
        2 * message_bytes,
        0,
        tuple(sorted(facts.items())),
    )


@overload
def bus_factor(collective: str, group_size: int) -> float: ...
@overload
def bus_factor(collective: str, group_size: Floats) -> Floats | float: ...
def bus_factor(collective: str, group_size: int | Floats) -> Floats | float:
    """Bus over algorithm bandwidth (nccl-tests, PERFORMANCE.md) of one group, or of many, shape [n]."""
    part = (group_size - 1) / group_size
    if collective == "all_reduce":
        return 2 * part
    return part if collective in ("all_gather", "reduce_scatter", "all_to_all") else 1.0


def token_routing(operation: Operation) -> TokenRouting | None:
    """Where the tokens of a dispatch go; None of other collectives."""
    facts = {name: operation.attribute(f"routing_{name}") for name in _ROUTING}
    if facts["num_experts"] is None:
        return None
    return TokenRouting(**{name: int(value or 0) for name, value in facts.items()})


def num_groups(operation: Operation) -> int:
    """Groups that exchange at the same time; 1 where a collective does not say."""
    value = operation.attribute("num_groups")
    return value if isinstance(value, int) else 1
