"""Whether what a device must hold is there, and how sure that is: the first thing that an answer says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from perfcast.units import format_bytes

#: Parts of one answer that its first line names.
_MOST_SAID = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What the fullest device needs of what it has.

    Attributes:
        fits: By the best estimate.
        needed_bytes: Best estimate.
        needed_bytes_low, needed_bytes_high: Its interval; equal where none is known.
        capacity_bytes: Of one device.
        way_out: A clause on what would make it fit; '' where nothing is known, or it fits.
        of: Which part of the answer that is, such as a plan among several; '' where it is the only one.
    """

    fits: bool
    needed_bytes: int
    needed_bytes_low: int
    needed_bytes_high: int
    capacity_bytes: int
    way_out: str = ""
    of: str = ""

    @property
    def is_uncertain(self) -> bool:
        """Whether the interval holds what the device has, so that it may be otherwise."""
        return self.needed_bytes_low <= self.capacity_bytes < self.needed_bytes_high

    @property
    def sentence(self) -> str:
        """The verdict in one line, without a full stop.

        >>> Fit(fits=False, needed_bytes=3 * 2**30, needed_bytes_low=3 * 2**30, needed_bytes_high=3 * 2**30,
        ...     capacity_bytes=2**30, way_out="recompute=full would").sentence
        'Does not fit: 3.00 GiB of 1.00 GiB; recompute=full would'
        """
        need = format_bytes(self.needed_bytes)
        if self.is_uncertain:
            ends = (format_bytes(self.needed_bytes_low), format_bytes(self.needed_bytes_high))
            need += f" ({' – '.join(ends)} with 90 %)"
        need += f" of {format_bytes(self.capacity_bytes)}"
        name = f"{self.of}: " if self.of else ""
        if self.fits:
            return f"{name}{'May not fit' if self.is_uncertain else 'Fits'}: {need}"
        doubt = ", though it may" if self.is_uncertain else ""
        way_out = f"; {self.way_out}" if self.way_out else ""
        return f"{name}Does not fit{doubt}: {need}{way_out}"

    @property
    def must_be_said(self) -> bool:
        """Whether an answer has to begin with it."""
        return self.is_uncertain or not self.fits


def fit_of(needed_bytes: int, capacity_bytes: int, *, way_out: str = "", of: str = "") -> Fit:
    """Where no interval of the need is known."""
    return Fit(
        fits=needed_bytes <= capacity_bytes,
        needed_bytes=needed_bytes,
        needed_bytes_low=needed_bytes,
        needed_bytes_high=needed_bytes,
        capacity_bytes=capacity_bytes,
        way_out=way_out,
        of=of,
    )


def first_said(fits: Iterable[Fit | None]) -> str:
    """What an answer of these must begin with, what does not fit first; '' where all surely fit."""
    doubtful = sorted((fit for fit in fits if fit is not None and fit.must_be_said), key=lambda fit: fit.fits)
    said = [fit.sentence for fit in doubtful[:_MOST_SAID]]
    if len(doubtful) > _MOST_SAID:
        said.append(f"So it is of {len(doubtful) - _MOST_SAID} more")
    return ". ".join(said)


def all_fit(fits: Iterable[Fit | None]) -> bool | None:
    """Whether everything fits; None where something does not say, and nothing is known not to."""
    known = list(fits)
    if any(fit is not None and not fit.fits for fit in known):
        return False
    return None if None in known else True
