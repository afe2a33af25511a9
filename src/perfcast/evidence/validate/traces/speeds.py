"""Steps of one model's programs, each stated for the same speed of the machine.

ln(seconds) follows the logarithms of three probes beside each step; slopes are fitted to deviations of the
processor's time from each program's own mean, so that nothing of how programs differ gets into them. The
speed at which all are stated is the median of the probes of all programs.

A program of one process is timed by the processor's clock, and its usual step is the median. Ranks wait for
each other, so that they are timed on the wall; there another process of the machine takes a rank's core for
seconds, which only ever adds: the usual step is the lower quartile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.evidence.validate.traces.parts import StepTimes
from perfcast.measure.embedding.probes import probe_slopes

#: Quantile of a program's steps that is stated: by the processor's clock, and by that on the wall.
_USUAL, _UNDISTURBED = 0.5, 0.25


@dataclass(frozen=True)
class StatedStep:
    """A program's usual step.

    Attributes:
        seconds: At the common speed.
        raw_seconds: Median as timed.
        later_over_earlier: At the common speed, of the later half of its turns over the earlier half's.
    """

    seconds: float
    raw_seconds: float
    later_over_earlier: float


def stated_steps(times: Mapping[str, StepTimes], num_ranks: int) -> dict[str, StatedStep]:
    """The usual step of each program of a model, by its name."""
    share = _USUAL if num_ranks == 1 else _UNDISTURBED
    probes = {name: np.array(found.probes) for name, found in times.items()}
    slopes = probe_slopes([np.array(found.processor) for found in times.values()], list(probes.values()))
    reference = np.median(np.concatenate(list(probes.values())), axis=0)
    stated = {}
    for name, found in times.items():
        seconds = np.array(found.processor if num_ranks == 1 else found.wall)
        stated[name] = _stated(seconds, np.log(probes[name] / reference) @ slopes, found.turns, share)
    return stated


def _stated(seconds: Floats, slower: Floats, turns: Sequence[int], share: float) -> StatedStep:
    stated = np.log(seconds) - slower
    is_later = np.array(turns) > np.median(np.unique(turns))
    apart = np.quantile(stated[is_later], share) - np.quantile(stated[~is_later], share)
    return StatedStep(
        float(np.exp(np.quantile(stated, share))), float(np.median(seconds)), float(np.exp(apart))
    )
