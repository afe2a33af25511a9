"""The largest batch or sequence that fits a device, found by capturing the model itself at each size tried.

Memory is taken to grow with the size: what fits at n fits below n. The answer rests on captures alone: the
model was captured at the answer, where it fits, and at the next size, where it does not (or which the model
does not take).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from typing import Literal

from perfcast.core.captured import StepSizes
from perfcast.core.forecast.device import Forecast
from perfcast.core.forecast.largest import Largest, Probe
from perfcast.core.graph import Graph
from perfcast.errors import PlanError
from perfcast.memory_use.liveness import peak_bytes
from perfcast.memory_use.reserved import context_of, reserve_memory
from perfcast.prediction.names import memory_device
from perfcast.prediction.one_device.bisection import Bisection
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.one_device.memory import memory_from
from perfcast.prediction.request.memory import MemoryRequest
from perfcast.prediction.request.one_device import Request

Quantity = Literal["batch_size", "sequence_length"]
BATCH_SIZE: Quantity = "batch_size"
SEQUENCE_LENGTH: Quantity = "sequence_length"
#: A search goes no further.
_BOUNDS: dict[Quantity, int] = {BATCH_SIZE: 10**6, SEQUENCE_LENGTH: 10**7}
_SECOND: dict[Quantity, int] = {BATCH_SIZE: 2, SEQUENCE_LENGTH: 1024}


class LargestSearch:
    """One search; ``run`` it, then ask for the ``result``, which after an interruption is the best so far."""

    def __init__(self, asked: MemoryRequest, quantity: Quantity = BATCH_SIZE) -> None:
        """
        Args:
            asked: Its batch or sequence is where the search begins.
            quantity: 'batch_size' (of one forward) or 'sequence_length'.

        Raises:
            PlanError: The function of a FILE.py:FUNCTION model does not take that size.
        """
        request = asked.workload
        device = memory_device(asked.device) if isinstance(asked.device, str) else asked.device
        if not isinstance(request.model, str):
            raise PlanError(
                f"the {quantity.replace('_', ' ')} of {request.title} is that of its inputs: write a "
                "function that takes it, and give FILE.py:FUNCTION"
            )
        if ".py:" in request.model:
            _check_takes(request.model, quantity)
        self._request, self._device, self._quantity = request, device, quantity
        self._allocator = asked.allocator
        #: The graph of the largest size that fits (of the first size, if none does).
        self._kept: dict[int, tuple[Graph, StepSizes]] = {}
        self._first = 2 if quantity == SEQUENCE_LENGTH and request.mode == "decode" else 1
        self._search = Bisection(self._measure, device.memory_bytes, self._first, _BOUNDS[quantity])

    def run(self, on_probe: Callable[[Probe], None] = lambda probe: None) -> None:
        """Capture sizes until the answer is known; ``on_probe`` is told of each.

        Raises:
            InputError: The model cannot be captured.
        """
        asked = {
            BATCH_SIZE: self._request.micro_batch_size or self._request.batch_size,
            SEQUENCE_LENGTH: self._request.sequence_length or 0,
        }[self._quantity]
        self._search.run(max(asked, _SECOND[self._quantity]), on_probe)

    @property
    def result(self) -> Largest:
        """What is known now."""
        search = self._search
        return Largest(
            quantity=self._quantity,
            value=search.largest,
            is_complete=search.is_complete,
            limit=search.limit,
            probes=tuple(search.probes.values()),
            capacity_bytes=self._device.memory_bytes,
        )

    def forecast(self) -> Forecast:
        """Memory at the answer, or at the smallest size where nothing fits."""
        size = self._search.largest or self._first
        request = with_size(self._request, self._quantity, size)
        graph, sizes = self._kept.get(size) or build_graph(request, self._device)
        forecast = memory_from(graph, sizes, request, self._device, self._allocator)
        note = f"what fits at one {self._quantity.replace('_', ' ')} is taken to fit at every smaller one"
        return replace(forecast, assumptions=(*forecast.assumptions, note))

    def _measure(self, size: int) -> Probe:
        graph, sizes = build_graph(with_size(self._request, self._quantity, size), self._device)
        probe = self._judge(size, graph)
        if probe.fits or not self._kept:
            self._kept = {size: (graph, sizes)}
        return probe

    def _judge(self, size: int, graph: Graph) -> Probe:
        """Without the allocator where tensors and context alone are too much."""
        tensor_bytes = peak_bytes(graph)
        least = tensor_bytes + context_of(self._device).num_bytes
        if least <= self._device.memory_bytes:
            reserved = reserve_memory(graph, self._device, self._allocator)
            if reserved is not None:
                return Probe(size, tensor_bytes, reserved.total_bytes, reserved.fits)
        return Probe(size, tensor_bytes, least, least <= self._device.memory_bytes)


def with_size(request: Request, quantity: Quantity, size: int) -> Request:
    """The request at another size; a batch is that of one forward, over as many micro-batches as before."""
    if quantity == SEQUENCE_LENGTH:
        return replace(request, sequence_length=size)
    if request.micro_batch_size is None:
        return replace(request, batch_size=size)
    return replace(request, batch_size=size * request.num_micro_batches, micro_batch_size=size)


def _check_takes(model: str, quantity: str) -> None:
    from perfcast.workload.models.user_file import load_function

    if quantity not in signature(load_function(model)).parameters:
        raise PlanError(f"{model} does not take {quantity}: give the function an argument of that name")
