"""The largest size whose need is within a capacity, by few measurements.

What a size needs is taken to grow with it. Tensors grow smoothly, so the next size to try is where the line
through the tensors of the two sizes around the limit meets the capacity (the secant); once a size was too
much for what lies beside the tensors, where it meets that part of the capacity which tensors had of it. What
an allocator adds is not smooth: where a try does not halve what is left, the middle is next.
"""

from __future__ import annotations

from collections.abc import Callable

from perfcast.core.forecast.largest import Probe
from perfcast.errors import ModelError

#: No step goes further than this factor beyond the largest size that fits.
MAX_GROWTH = 64


class Bisection:
    """A search that may be interrupted: what it knows is what was measured.

    Attributes:
        probes: By size, in the order in which they were measured.
        limit: Message of the error with which the model refused a size; '' if it took all that were tried.
    """

    def __init__(self, measure: Callable[[int], Probe], capacity_bytes: int, first: int, bound: int) -> None:
        """
        Args:
            measure: Tries a size; raises ModelError for one that the model does not take.
            capacity_bytes: Where the secant looks for the limit; ``measure`` says what fits.
            first: The smallest size that means something.
            bound: The largest size that may be asked for.
        """
        self._measure, self._capacity_bytes = measure, capacity_bytes
        self._first, self._refused = first, bound + 1
        self._asks_next = self._was_misled = False
        self._gap = bound
        self.probes: dict[int, Probe] = {}
        self.limit = ""

    @property
    def largest(self) -> int | None:
        """The largest size known to fit."""
        return max((size for size, probe in self.probes.items() if probe.fits), default=None)

    @property
    def is_complete(self) -> bool:
        """Whether the size after the largest is known not to fit, or not even the first does."""
        if self.largest is None:
            return self._first in self.probes
        return self.largest + 1 >= self._too_large

    @property
    def _too_large(self) -> int:
        return min([self._refused, *(size for size, probe in self.probes.items() if not probe.fits)])

    def run(self, second: int, on_probe: Callable[[Probe], None]) -> None:
        """Measure the first size, then ``second``, then where the secant points, until the answer is known.

        Raises:
            ModelError: The model does not take the first size.
        """
        self._try(self._first, on_probe)
        if not self.is_complete:
            self._try(max(self._first + 1, min(second, self._too_large - 1)), on_probe)
        while not self.is_complete:
            self._try(self._next(), on_probe)

    def _try(self, size: int, on_probe: Callable[[Probe], None]) -> None:
        try:
            probe = self._measure(size)
        except ModelError as error:
            if size == self._first:
                raise
            self._asks_next = not self.limit
            self.limit, self._refused = str(error), size
            return
        self.probes[size] = probe
        on_probe(probe)

    def _next(self) -> int:
        low, high = self.largest or 0, self._too_large
        if self._asks_next:  # the model often ends where it was asked before
            self._asks_next = False
            return low + 1
        is_slow, self._gap = 2 * (high - low) > self._gap, high - low
        ends_by_refusal = bool(self.limit) and high == self._refused
        guess = self._secant()
        is_outside = not low < guess < high
        misled = is_outside and self._was_misled  # a size next to a known one is tried on such advice once
        self._was_misled = self._was_misled or is_outside
        if ((is_slow or misled) and high in self.probes) or (ends_by_refusal and guess >= high):
            return (low + high) // 2
        return max(low + 1, min(guess, high - 1, MAX_GROWTH * max(low, 1)))

    def _secant(self) -> int:
        """Where the line through the tensors of the two measured sizes next to the limit meets their part."""
        sizes = sorted(self.probes)
        if len(sizes) == 1:
            return 2 * sizes[0]
        place = min(sizes.index(self.largest or sizes[0]), len(sizes) - 2)
        a, b = (self.probes[size] for size in sizes[place : place + 2])
        slope = (b.tensor_bytes - a.tensor_bytes) / (b.size - a.size)
        part = self._capacity_bytes * (1.0 if b.fits else b.tensor_bytes / b.needed_bytes)
        return int(a.size + (part - a.tensor_bytes) / slope) if slope > 0 else self._too_large
