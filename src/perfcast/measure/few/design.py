"""Which kernels to measure, the one that tells most first.

Greedy: the next kernel is the one whose measurement lowers the weighted posterior variance of a set of
kernels most, given all that were chosen before (``cost/learned/corrections/covariance``). It needs no times.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.covariance import Covariance
from perfcast.cost.learned.corrections.traits import Traits
from perfcast.errors import CalibrationError
from perfcast.figures import parse_toml
from perfcast.measure.few.cases import FewCase, few_cases

#: How many a quick measurement takes.
FEW = 40
_ORDER = Path(__file__).parent / "order.toml"


def order_by_gain(
    candidates: Traits, reference: Traits, weights: Floats, covariance: Covariance, count: int
) -> list[int]:
    """Places of ``count`` candidates, the most telling first.

    Args:
        weights: Of the variance of each reference kernel, shape [r].
    """
    own = covariance.shared(candidates)
    cross, among = covariance.between(candidates, reference), covariance.between(candidates, candidates)
    noise = covariance.alone(candidates)
    chosen: list[int] = []
    for _ in range(min(count, len(candidates))):
        gains = (cross**2 @ weights) / (own + noise)
        gains[chosen] = -1.0
        best = int(np.argmax(gains))
        chosen.append(best)
        scale = own[best] + noise[best]
        told = among[:, best].copy()
        cross = cross - np.outer(told, cross[best]) / scale
        among = among - np.outer(told, told) / scale
        own = np.clip(own - told**2 / scale, 0.0, None)
    return chosen


def choose_cases(device: Device, count: int | None = FEW) -> list[FewCase]:
    """Cases that a device can run, in the designed order; the others follow where all are asked for.

    Raises:
        CalibrationError: The device computes in none of their formats.
    """
    every = few_cases()
    designed = [every[name] for name in load_order()]
    rest = [case for name, case in every.items() if name not in load_order()]
    able = [case for case in (*designed, *rest) if case.runs_on(device)]
    if not able:
        raise CalibrationError(f"{device.name} has no format that is measured (bf16, fp16, fp32, tf32, fp8)")
    return able if count is None else able[:count]


def load_order() -> tuple[str, ...]:
    """Names of the cases in the designed order."""
    return tuple(parse_toml(_ORDER)["names"])
