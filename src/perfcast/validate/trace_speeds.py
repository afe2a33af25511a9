"""Steps of one model's programs, each stated for the same speed of the machine.

ln(seconds) follows the logarithms of three probes beside each step; slopes are fitted to deviations from
each program's own mean, so that nothing of how programs differ gets into them. The speed at which all are
stated is the median of the probes of all programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfcast.measure.embedding_probes import Array, probe_slopes
from perfcast.validate.trace_parts import StepTimes


@dataclass(frozen=True)
class StatedStep:
    """A program's usual step.

    Attributes:
        seconds: Median of its steps at the common speed.
        raw_seconds: Median as timed.
        later_over_earlier: Median at the common speed of the later half of its turns over the earlier half's.
    """

    seconds: float
    raw_seconds: float
    later_over_earlier: float


def stated_steps(times: Mapping[str, StepTimes], num_ranks: int) -> dict[str, StatedStep]:
    """Of each program of a model; by the processor's clock, and of several ranks by the one on the wall."""
    seconds = {
        name: np.array(found.processor if num_ranks == 1 else found.wall) for name, found in times.items()
    }
    probes = {name: np.array(found.probes) for name, found in times.items()}
    slopes = probe_slopes(list(seconds.values()), list(probes.values()))
    reference = np.median(np.concatenate(list(probes.values())), axis=0)
    return {
        name: _stated(seconds[name], np.log(probes[name] / reference) @ slopes, found.turns)
        for name, found in times.items()
    }


def _stated(seconds: Array, slower: Array, turns: Sequence[int]) -> StatedStep:
    stated = np.log(seconds) - slower
    is_later = np.array(turns) > np.median(np.unique(turns))
    apart = np.median(stated[is_later]) - np.median(stated[~is_later])
    return StatedStep(float(np.exp(np.median(stated))), float(np.median(seconds)), float(np.exp(apart)))
