"""Predictors of single kernels, side by side behind one method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from perfcast.core.arrays import Floats, Integers, Objects
from perfcast.core.kernel import KernelTable
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.store import WEIGHTS, load_family, model_names_of
from perfcast.errors import UnknownNameError
from perfcast.evidence.validate.kernels.trained import find_trained
from perfcast.published.registry import (
    BATCHED_PRODUCT_NETS,
    PREDICTORS,
    KernelPredictor,
    find_entry,
    load_predictor,
)

NO_PREDICTOR = "no trained predictor"
UNSUPPORTED = "unsupported operation"

_BLIND_OVER = ("sglang", "trtllm", "vllm")


@dataclass(frozen=True, eq=False)
class Prices:
    """Of n kernels, shape [n]; NaN where there is nothing to say.

    Attributes:
        provenance: '' where the predictor does not tell.
        reason: Why there is no price; '' for none.
    """

    seconds: Floats
    low: Floats
    high: Floats
    provenance: Objects
    reason: Objects

    @classmethod
    def none(cls, count: int, reason: str) -> Prices:
        """No prices at all."""
        nothing = np.full(count, np.nan)
        words = np.full(count, "", dtype=object)
        return cls(nothing, nothing.copy(), nothing.copy(), words, np.full(count, reason, dtype=object))

    def put(self, index: Integers, prices: Prices) -> None:
        """Write ``prices`` into the rows ``index``."""
        for name in ("seconds", "low", "high", "provenance", "reason"):
            getattr(self, name)[index] = getattr(prices, name)

    def take(self, index: Integers) -> Prices:
        """The rows that ``index`` selects."""
        return Prices(
            self.seconds[index], self.low[index], self.high[index], self.provenance[index], self.reason[index]
        )


class Pricer(Protocol):
    """Prices kernels; never raises for a kernel that it cannot price, but says why."""

    @property
    def name(self) -> str:
        """As asked for on the command line."""
        ...

    def covers(self, kind: str) -> bool:
        """Whether rows of this kind of table are reported at all."""
        ...

    def price(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Prices:
        """Price kernel i on ``devices[device_index[i]]``."""
        ...


@dataclass(frozen=True)
class LearnedPricer:
    """Our forecaster; ``folder`` None takes the shipped weights."""

    folder: Path | None = None
    name: str = "learned"

    def covers(self, kind: str) -> bool:
        """All tables."""
        return True

    def price(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Prices:
        """Price by model; a model without a file prices nothing."""
        prices = Prices.none(len(kernels), NO_PREDICTOR)
        models = model_names_of(kernels)
        for model in sorted(set(models.tolist())):
            if not is_trained(str(model), self.folder):
                continue
            rows = np.flatnonzero(models == model)
            fitted = load_family(str(model), self.folder)
            estimate = fitted.estimate(kernels.take(rows), devices, device_index[rows])
            sound = np.isfinite(estimate.seconds) & (estimate.seconds > 0)
            prices.put(
                rows,
                Prices(
                    estimate.seconds,
                    estimate.seconds_low,
                    estimate.seconds_high,
                    estimate.provenance,
                    np.where(sound, "", UNSUPPORTED).astype(object),
                ),
            )
        return prices


def is_trained(model: str, folder: Path | None) -> bool:
    """Whether a model of the learned forecaster has its file."""
    return ((folder or WEIGHTS) / f"{model}.json.gz").exists()


@dataclass(frozen=True)
class BlindPricer:
    """``learned`` without knowing the framework: the mean of its three forecasts, in logarithms.

    The interval runs from the lowest to the highest of the three.
    """

    learned: LearnedPricer
    name: str = "learned:blind"

    def covers(self, kind: str) -> bool:
        """Products measured in three frameworks."""
        return kind == "gemm"

    def price(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Prices:
        """Price three times, and average."""
        answers = []
        for framework in _BLIND_OVER:
            words = np.full(len(kernels), framework, dtype=object)
            renamed = replace(kernels, columns={**kernels.columns, "framework": words})
            answers.append(self.learned.price(renamed, devices, device_index))
        return Prices(
            np.exp(np.mean([np.log(a.seconds) for a in answers], axis=0)),
            np.min([a.low for a in answers], axis=0),
            np.max([a.high for a in answers], axis=0),
            answers[0].provenance,
            answers[0].reason,
        )


@dataclass(frozen=True)
class PublishedPricer:
    """A predictor of the registry; trained apart on NVIDIA and on AMD devices.

    Attributes:
        dies: It must not have learned from these.
    """

    name: str
    dies: frozenset[str] = frozenset()

    def covers(self, kind: str) -> bool:
        """The larger predictors answer for batched products only."""
        return self.name not in BATCHED_PRODUCT_NETS or kind == "bmm"

    def price(self, kernels: KernelTable, devices: Sequence[Device], device_index: Integers) -> Prices:
        """Price by vendor; what was never trained prices nothing."""
        prices = Prices.none(len(kernels), NO_PREDICTOR)
        vendor = np.array([device.vendor for device in devices], dtype=object)[device_index]
        for name in sorted(set(vendor.tolist())):
            predictor = self.load(str(name))
            if predictor is None:
                continue
            rows = np.flatnonzero(vendor == name)
            seconds = predictor.predict(kernels.take(rows), devices, device_index[rows])
            answer = Prices.none(len(rows), UNSUPPORTED)
            answer.seconds[:] = seconds
            answer.reason[np.isfinite(seconds)] = ""
            answer.provenance[:] = "bounded" if self.name == "roofline" else ""
            prices.put(rows, answer)
        return prices

    def load(self, vendor: str) -> KernelPredictor | None:
        """The predictor trained on devices of a vendor; None where it is not trained."""
        if not find_entry(self.name).is_trained:
            return load_predictor(self.name, Path())
        folder = find_trained(self.name, vendor, self.dies)
        return load_predictor(self.name, folder) if folder else None


def build_pricers(
    names: Sequence[str], folder: Path | None = None, dies: frozenset[str] = frozenset()
) -> list[Pricer]:
    """Predictors by name.

    Args:
        folder: Weights of the learned forecaster; the shipped ones by default.
        dies: Published predictors must not have learned from these.

    Raises:
        UnknownNameError: Neither 'learned', 'learned:blind' nor in the registry.
    """
    learned = LearnedPricer(folder)
    pricers: list[Pricer] = []
    for name in names:
        if name == "learned":
            pricers.append(learned)
        elif name == "learned:blind":
            pricers.append(BlindPricer(learned))
        elif name in PREDICTORS:
            pricers.append(PublishedPricer(name, dies))
        else:
            known = ("learned", "learned:blind", *PREDICTORS)
            raise UnknownNameError("predictor", name, known, f"Known: {', '.join(known)}.")
    return pricers
