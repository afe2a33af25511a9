"""Habitat's wave scaling: the time of a kernel on one device from its time on another.

A kernel of B thread blocks runs in ⌈B/W⌉ waves of W blocks. A wave that memory bounds takes as long as its
traffic, ∝ W/D at bandwidth D; one that arithmetic bounds takes a number of cycles, ∝ 1/C at clock C, whatever
W is. Habitat mixes the two geometrically with the memory-boundedness γ in [0, 1], from o to d:

    T_d = ⌈B/W_d⌉ / ⌈B/W_o⌉ · (D_o/D_d · W_d/W_o)^γ · (C_o/C_d)^(1−γ) · T_o

With many waves ⌈B/W⌉ → B/W, B falls out, and so does every count of blocks:

    T_d = (D_o/D_d)^γ · (W_o·C_o / (W_d·C_d))^(1−γ) · T_o

That form is used: row kernels have thousands of blocks. W is taken proportional to the multiprocessors.
γ follows from the kernel's arithmetic intensity x and the target's ridge R = peak / bandwidth:

    γ = 1 − x / 2R   for x < R,      γ = R / 2x   otherwise

so that a kernel at the ridge counts half. Source: Yu, Gao, Golikov, Pekhimenko: "Habitat", USENIX ATC 2021,
section on wave scaling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.published.comparison import print_part


@dataclass(frozen=True)
class Machine:
    """Figures of a device.

    Attributes:
        peak_flops_per_second: Of ordinary fp32 arithmetic.
    """

    memory_bytes_per_second: float
    clock_hertz: float
    num_sms: int
    peak_flops_per_second: float


def memory_boundedness(intensity: Floats, machine: Machine) -> Floats:
    """γ of kernels with ``intensity`` flops per byte."""
    ratio = intensity / (machine.peak_flops_per_second / machine.memory_bytes_per_second)
    return np.where(ratio < 1, 1 - ratio / 2, 0.5 / np.maximum(ratio, 1.0))


def scale_waves(seconds: Floats, intensity: Floats, origin: Machine, target: Machine) -> Floats:
    """Seconds on ``target`` of kernels that took ``seconds`` on ``origin``."""
    gamma = memory_boundedness(intensity, target)
    memory = origin.memory_bytes_per_second / target.memory_bytes_per_second
    compute = (origin.num_sms * origin.clock_hertz) / (target.num_sms * target.clock_hertz)
    scaled: Floats = seconds * memory**gamma * compute ** (1 - gamma)
    return scaled


if __name__ == "__main__":
    print_part("habitat.wave_scaling", "habitat")
