"""Calls of one rank in the making: a tape knows what the next call has to wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.model.token_routing import TokenRouting
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.work import Call, Calls, Stream


class Tape:
    """A sequence that grows. A kernel waits for the collectives before it, but those that run beside it.

    A collective at the end of a sequence, which no call in it waits for, is waited for by the kernel that
    follows when the sequence is added to another (``add``).

    Args:
        trains: Whether the weights of a module train: where they do not, kernels that make their gradient are
            left out. None: all do.
    """

    def __init__(self, trains: Callable[[str], bool] | None = None) -> None:
        self._trains = trains
        self._calls: list[Call] = []
        self._awaited: list[int] = []
        self._last_kernel: int | None = None
        self._is_recomputing = False

    def run(
        self,
        operation: Operation,
        module: str,
        *,
        num_launches: int = 1,
        is_weight_gradient: bool = False,
        host_waits: bool = False,
    ) -> None:
        """A kernel; nothing where it makes the gradient of a weight that does not train."""
        if is_weight_gradient and self._trains is not None and not self._trains(module):
            return
        self._append(
            Call(
                operation,
                after=tuple(self._awaited),
                module=module,
                num_launches=num_launches,
                is_weight_gradient=is_weight_gradient,
                host_waits=host_waits,
            )
        )

    def collective(
        self,
        collective: str,
        message_bytes: int,
        ranks: Sequence[int],
        stream: Stream,
        module: str,
        *,
        world_size: int,
        dtype: DType = DType.BF16,
        is_awaited: bool = True,
        routing: TokenRouting | None = None,
        reads_peers: bool = False,
        host_waits: bool = False,
    ) -> int | None:
        """A collective behind the last kernel; None, and nothing, among fewer than two ranks.

        Args:
            message_bytes: Of the full buffer (``core.collective.message_bytes``).
            world_size: All devices: the groups of this shape exchange at once.
            routing: Of a dispatch, where its tokens go.
            reads_peers: Whether the program has a kernel of its own for it (``core.collective``).
            is_awaited: Whether the next kernel waits for it; else ``wait`` says when.
            host_waits: Whether the host reads its result before it issues the next call.
        """
        if len(ranks) < 2:
            return None
        operation = collective_operation(
            collective, message_bytes, ranks, dtype, num_groups=world_size // len(ranks), routing=routing,
            reads_peers=reads_peers,
        )  # fmt: skip
        before = () if self._last_kernel is None else (self._last_kernel,)
        earlier = tuple(at for at in self._awaited if self._calls[at].stream is not stream)
        after = tuple(sorted((*before, *earlier)))
        index = self._append(Call(operation, stream, after=after, module=module, host_waits=host_waits))
        if is_awaited:
            self._awaited.append(index)
        return index

    def collective_call(self, call: Call) -> None:
        """A call on another stream behind the last kernel and what that would wait for; the next waits."""
        before = () if self._last_kernel is None else (self._last_kernel,)
        earlier = tuple(at for at in self._awaited if self._calls[at].stream is not call.stream)
        self._awaited.append(self._append(call.behind(tuple(sorted((*before, *earlier))))))

    def wait(self, index: int | None) -> None:
        """The next kernel waits for this collective."""
        if index is not None and index not in self._awaited:
            self._awaited.append(index)

    def add(self, calls: Iterable[Call]) -> None:
        """Another sequence behind this one."""
        added = tuple(calls)
        by, waited = len(self._calls), {at for call in added for at in call.after}
        for place, call in enumerate(added):
            after = tuple(at + by for at in call.after)
            if not after:
                before = () if self._last_kernel is None else (self._last_kernel,)
                after = tuple(self._awaited) if call.stream is Stream.COMPUTE else before
            self._append(call.behind(after))
            if call.stream is not Stream.COMPUTE and place not in waited:
                self._awaited.append(by + place)

    @contextmanager
    def recomputing(self) -> Iterator[None]:
        """What is recorded inside repeats work of the forward."""
        before, self._is_recomputing = self._is_recomputing, True
        yield
        self._is_recomputing = before

    def finish(self) -> None:
        """The sequence ends when all that its next kernel would wait for has ended."""
        if self._awaited:
            wait = Operation(OperationKind.ALLOCATION, "wait", (), (), DType.FP32, 0, 0, 0)
            self.run(wait, self._calls[-1].module, num_launches=0)

    def calls(self) -> Calls:
        """All so far."""
        return tuple(self._calls)

    def _append(self, call: Call) -> int:
        index = len(self._calls)
        self._calls.append(call.recomputed() if self._is_recomputing else call)
        if call.stream is Stream.COMPUTE:
            self._awaited, self._last_kernel = [], index
        return index
