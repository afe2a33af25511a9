"""``learned``: our forecaster as a cost model for captured graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.learned.corrections.evidence import Evidence
from perfcast.cost.learned.corrections.moved import MovedFamily, move_spans
from perfcast.cost.learned.kinship import describe_kin
from perfcast.cost.learned.operands import quantised_products, share_without_quantisation
from perfcast.cost.learned.predictor import EXTRAPOLATED, FittedFamily, KernelEstimates
from perfcast.cost.learned.relatives import has_stand_in, widening_of
from perfcast.cost.learned.rising import RisingPrices
from perfcast.cost.learned.store import load_family, model_names_of
from perfcast.cost.learned.streams import price_streams
from perfcast.cost.learned.translate import DEFAULT_FRAMEWORK, translate
from perfcast.cost.learned.wider import in_16_bits, narrow_products
from perfcast.cost.model import (
    UNKNOWN_SPREAD,
    Estimates,
    is_free,
    is_unknown,
    least_seconds,
    roofline_seconds,
    widen_announced,
)
from perfcast.cost.processor.model import price_on_processor
from perfcast.errors import UnknownNameError
from perfcast.frameworks.load import load_inference_profiles, load_training_profile

BOUNDED = "bounded"
#: A kernel of at most this many launch floors, mostly overhead, is bound by its launch.
_SHORT = 3.0
#: The model of most devices: its devices are said to have been measured.
_TELLING = "product_narrow"
#: The model that was fitted to whole steps.
_OF_STEPS = "convolution_narrow"
#: Operations of a device whose prices are kept.
_MOST_KEPT = 4096


@dataclass(frozen=True, eq=False)
class Moved:
    """What measurements on a device did to all families.

    Attributes:
        words: Which measurements, for people.
    """

    device_name: str
    evidence: Evidence
    words: str


@dataclass(frozen=True)
class LearnedCost:
    """Prices operations with the fitted families.

    Attributes:
        framework: Whose kernels run; one that has an inference profile.
        folder: Fitted models; None takes the shipped ones.
        moved: What measurements on the user's device say; None without any.
    """

    framework: str = DEFAULT_FRAMEWORK
    folder: Path | None = None
    moved: Moved | None = None
    name: str = "learned"

    def __post_init__(self) -> None:
        known = tuple(load_inference_profiles())
        if self.framework not in known:
            raise UnknownNameError("framework", self.framework, known, f"Known: {', '.join(known)}.")

    @property
    def host_seconds(self) -> float:
        """From launch to launch; nothing where kernels are replayed as CUDA graphs."""
        if load_inference_profiles()[self.framework].replays_graphs:
            return 0.0
        return load_training_profile(self.framework).host.launch_seconds

    @property
    def measurements(self) -> str:
        """Kernels measured on the device that moved its forecast, in words; '' for none."""
        return self.moved.words if self.moved is not None else ""

    def model(self, name: str) -> FittedFamily | MovedFamily:
        """The fitted family of a name, moved where its device was measured.

        Raises:
            CalibrationError: Its file is missing or damaged.
        """
        fitted = load_family(name, self.folder)
        if self.moved is None:
            return fitted
        return MovedFamily(fitted, self.moved.device_name, self.moved.evidence)

    def _moves_device(self, device: Device) -> bool:
        """Whether measurements of the device are taken into account."""
        return self.moved is not None and self.moved.device_name == device.name

    def about_device(self, device: Device) -> str:
        """How near the nearest measured devices are, by products in 16 bits; '' for a measured one."""
        if self._moves_device(device):
            return ""
        scalars = load_family(_TELLING, self.folder).scalars
        return describe_kin(device, sorted({name for name, _ in scalars.values}), scalars.architectures)

    def nearest(self, operations: Sequence[Operation], device: Device) -> list[str]:
        """The measurement nearest to each operation; '' where none is known."""
        found = [""] * len(operations)
        if device.is_cpu:
            return found
        translation = translate(operations, self.framework, device.vendor, device.architecture)
        for family, table in translation.tables.items():
            for model, rows in _by_model(table):
                words = self.model(model).nearest(table.take(rows), device)
                for index, text in zip(translation.sources[family][rows].tolist(), words, strict=True):
                    found[index] = text
        return found

    def estimate(self, operations: Sequence[Operation], device: Device) -> Estimates:
        """Price each operation once; one without a rule is a bound with a wide interval.

        A processor has no kernels among the families: it is priced by ``cost/processor``. Prices last asked
        for are kept: plans that differ elsewhere run the same kernels.
        """
        if device.is_cpu:
            return price_on_processor(operations, device)
        return _kept_prices(self, device).estimate(operations, self._estimate)

    def _estimate(
        self, operations: Sequence[Operation], device: Device
    ) -> tuple[Estimates, Sequence[bool | None]]:
        """Prices, and whether nobody's of the vendor was measured; None of an operation without a rule."""
        count = len(operations)
        roofline, least = roofline_seconds(operations, device), least_seconds(operations, device)
        launch = device.launch_seconds if np.isfinite(device.launch_seconds) else 0.0
        unknown, free = is_unknown(operations), is_free(operations)
        seconds = np.where(unknown, launch + roofline, 0.0)
        low, high = np.where(unknown, roofline, 0.0), np.where(unknown, seconds * UNKNOWN_SPREAD, 0.0)
        bound_by = np.where(free, "nothing", np.where(unknown, "memory", "")).astype(object)
        provenance = np.where(unknown, BOUNDED, EXTRAPOLATED).astype(object)
        foreign: list[bool | None] = [None] * count
        move, narrowed = np.zeros(count), np.ones(count)
        translation = translate(operations, self.framework, device.vendor, device.architecture)
        for family, table in translation.tables.items():
            source, repeats = translation.sources[family], translation.repeats[family]
            for model, rows in _by_model(table):
                part = table.take(rows)
                index = np.zeros(len(part), dtype=np.int64)
                fitted, at = load_family(model, self.folder), source[rows]
                priced = self._rising(model, device).apply(part, fitted.estimate(part, [device], index))
                move[at], narrowed[at] = self._moves(fitted, part, device, priced)
                seconds[at] = np.maximum(priced.seconds * repeats[rows], roofline[at])
                scale = seconds[at] / priced.seconds
                low[at] = np.maximum(priced.seconds_low * scale, least[at])
                high[at] = priced.seconds_high * scale
                is_short = (priced.seconds < _SHORT * launch) & (priced.overhead_share > 0.5)
                more_compute = priced.compute_share >= 1 - priced.overhead_share - priced.compute_share
                limit = np.where(more_compute, "compute", "memory")
                bound_by[at] = np.where(is_short, "launch", limit)
                provenance[at] = priced.provenance
                for place, flag in zip(at.tolist(), priced.is_foreign.tolist(), strict=True):
                    foreign[place] = flag and foreign[place] is not False and not self._moves_device(device)
        assert len(seconds) == count
        is_measured = device.name in load_family("rows", self.folder).scalars.architectures
        price_streams(operations, device, is_measured, (seconds, low, high), self._widths_of_steps(device))
        if self._moves_device(device):
            bounds = [np.minimum(b, s) for b, s in ((roofline, seconds), (least, low), (roofline, high))]
            moved = move_spans((seconds, low, high), move, narrowed)
            seconds, low, high = (np.maximum(span, bound) for span, bound in zip(moved, bounds, strict=True))
        self._take_off_quantisation(operations, device, roofline, (seconds, low, high))
        relatives = [i for i, operation in enumerate(operations) if has_stand_in(operation, device.vendor)]
        provenance[relatives] = EXTRAPOLATED
        wider = np.array([widening_of(operations[i]) for i in relatives])
        low[relatives] = np.maximum(low[relatives] / wider, least[relatives])
        high[relatives] *= wider
        self._keep_below_16_bits(operations, device, (seconds, low))
        found = Estimates(seconds, low, high, tuple(bound_by.tolist()), tuple(provenance.tolist()))
        return widen_announced(found, device), foreign

    def _rising(self, model: str, device: Device) -> RisingPrices:
        """What keeps a model's prices on a device from falling while kernels grow with a step."""
        return rising_prices(model, self.folder, device)

    def _widths_of_steps(self, device: Device) -> dict[bool, tuple[float, float]]:
        """How far off steps were to which convolutions and streams were fitted; True: of gradients.

        As shipped, like the streams' constants, whatever ``folder`` holds.
        """
        fitted = load_family(_OF_STEPS)
        return {
            is_gradient: fitted.span_of(device, (name, "fp16", DEFAULT_FRAMEWORK))
            for is_gradient, name in ((False, "convolution"), (True, "convolution_backward"))
        }

    def _moves(
        self, fitted: FittedFamily, kernels: KernelTable, device: Device, before: KernelEstimates
    ) -> tuple[Floats, Floats]:
        """As of ``MovedFamily.moves``; nothing without measurements of the device."""
        if self.moved is None or not self._moves_device(device):
            return np.zeros(len(kernels)), np.ones(len(kernels))
        return MovedFamily(fitted, device.name, self.moved.evidence).moves(kernels, device, before)

    def _keep_below_16_bits(
        self, operations: Sequence[Operation], device: Device, spans: Sequence[Floats]
    ) -> None:
        """Of narrow products that wait for their weights, in place."""
        rows = narrow_products(operations, device)
        if rows:
            wide = self.estimate([in_16_bits(operations[i], device) for i in rows], device).seconds
            for seconds in spans:
                seconds[rows] = np.minimum(seconds[rows], wide)

    def _take_off_quantisation(
        self, operations: Sequence[Operation], device: Device, roofline: Floats, spans: Sequence[Floats]
    ) -> None:
        """Of products whose operand the kernel before has quantised, in place."""
        rows = quantised_products(operations)
        if not len(rows):
            return
        chosen = [operations[i] for i in rows.tolist()]
        share = share_without_quantisation(chosen, spans[0][rows], device, self.framework, self.model)
        for seconds in spans:
            seconds[rows] = np.maximum(seconds[rows] * share, roofline[rows])


def _by_model(table: KernelTable) -> list[tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]]:
    names = model_names_of(table)
    return [(str(name), np.flatnonzero(names == name)) for name in sorted(set(names.tolist()))]


class _KeptPrices:
    """Prices of single operations on one device, each independent of the others that it was priced with."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._rows: dict[Operation, _Row] = {}

    def estimate(
        self,
        operations: Sequence[Operation],
        price: Callable[[Sequence[Operation], Device], tuple[Estimates, Sequence[bool | None]]],
    ) -> Estimates:
        """Of all: those that are kept, and by ``price`` those that are not."""
        found = [self._rows.get(operation) for operation in operations]
        missing = [operation for operation, row in zip(operations, found, strict=True) if row is None]
        if missing:
            new = dict.fromkeys(missing)
            rows = dict(zip(new, _rows(*price(list(new), self._device)), strict=True))
            found = [
                rows[operation] if row is None else row
                for operation, row in zip(operations, found, strict=True)
            ]
            if len(self._rows) + len(rows) > _MOST_KEPT:
                self._rows.clear()
            if len(rows) <= _MOST_KEPT:
                self._rows.update(rows)
        return _estimates([row for row in found if row is not None])


#: Seconds, low and high, what bounds it, provenance, whether nobody's of the vendor was measured.
_Row = tuple[float, float, float, str, str, bool | None]


def _rows(estimates: Estimates, foreign: Sequence[bool | None]) -> Iterator[_Row]:
    spans = (estimates.seconds, estimates.seconds_low, estimates.seconds_high)
    columns = (span.tolist() for span in spans)
    return zip(*columns, estimates.bound_by, estimates.provenance, foreign, strict=True)


def _estimates(rows: Sequence[_Row]) -> Estimates:
    spans = np.array([row[:3] for row in rows], dtype=np.float64).reshape(-1, 3)
    foreign = [row[5] for row in rows if row[5] is not None]
    seconds, low, high = np.ascontiguousarray(spans.T)
    return Estimates(
        seconds,
        low,
        high,
        tuple(row[3] for row in rows),
        tuple(row[4] for row in rows),
        bool(foreign) and all(foreign),
    )


@lru_cache(maxsize=64)
def rising_prices(model: str, folder: Path | None, device: Device) -> RisingPrices:
    """Prices of a fitted family on a device that do not fall while kernels grow with a step.

    Args:
        model: Of ``store.MODEL_NAMES``.
        folder: As of ``LearnedCost``.
    """
    fitted = load_family(model, folder)

    def price(kernels: KernelTable) -> Floats:
        return fitted.estimate(kernels, [device], np.zeros(len(kernels), dtype=np.int64)).seconds

    def physics(kernels: KernelTable) -> Floats:
        return fitted.describe(kernels, [device], np.zeros(len(kernels), dtype=np.int64)).seconds

    return RisingPrices(price, physics)


@lru_cache(maxsize=24)
def _kept_prices(cost_model: LearnedCost, device: Device) -> _KeptPrices:
    """Of a cost model's prices on a device."""
    return _KeptPrices(device)
