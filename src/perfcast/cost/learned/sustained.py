"""The share of its peak rate at which a device can keep computing.

A datasheet states peaks at the boost clock; a long product makes the device draw its power limit, and
the clock falls. Three checkable figures bound how far:

* base / boost clock: what the vendor guarantees over what it advertises. The sustained clock lies
  between the two; without more knowledge at their geometric mean, (base / boost)^½. On GeForce boards boost
  is what the vendor states and not the highest clock: the driver lets it rise to its maximum while there is
  power to spare, so the mean is that of base and maximum (RTX 4090: 2634 MHz; NVIDIA's nvbench prints 2655
  under load, 105 % of boost), and the share of the stated peak may exceed 1. What is guaranteed is so under
  the load that takes most power, of tensor cores; ordinary units that need a part x ≤ 1 of the board's power
  at the full clock keep it further: (base / boost)^(0.4 x²).
* power per peak flop, in units of the manufacturing process's energy per operation: dynamic power is
  C·V²·f and V rises about with √f near the top of the range, so P ∝ f² and a budget of a share p of what
  full speed needs allows a clock of p^½ (Rabaey, Chandrakasan, Nikolić: Digital Integrated Circuits, §5.5).
* issue slots: where every slot of a scheduler must issue a fused multiply-add to reach the fp32 peak
  (32 lanes a scheduler), loads and addresses take slots away: an 8 × 8 register tile needs four loads a
  64 multiply-adds, as many other instructions, and stalls where operands meet in one register bank or loads
  are written back; 0.8 of the peak is what linear layers on P100 and L4 reach of what power allows (0.71 and
  0.75; batched products 0.93) and cuBLAS on RTX A6000 (0.78: S. Boehm, How to Optimize a CUDA Matmul Kernel,
  2022: 23.25 TFLOP/s at 4096³). Schedulers per multiprocessor: NVIDIA, CUDA C++ Programming Guide,
  §"Compute Capabilities".

These are prior guesses; the learner corrects them by what trained devices show.
"""

from __future__ import annotations

import math

from perfcast.core.dtype import DType
from perfcast.core.machine.hardware import Device

#: Median of base / boost over the devices that publish both; used where a device does not.
TYPICAL_BASE_OVER_BOOST = 0.75
#: Watts per peak TFLOP/s (at 16 nm) below which a device cannot hold its clock: a fused multiply-add of
#: fp32 takes some 10 pJ a flop with its operands' way, a tensor core's 16-bit one a tenth
#: (Horowitz, ISSCC 2014; Dally, Hot Chips 2023), and about half of a board's power reaches the units.
_VECTOR_PICOJOULES = 22.0
_MATRIX_PICOJOULES = 2.6
_ISSUE_SHARE = 0.8
#: Chosen on products in single precision of devices left out in turn (T4, L4, A100, P100, V100).
_VECTOR_LOAD = 0.4
_SCHEDULERS = {"6.0": 2}


def sustained_share(device: Device, matrix_units: bool) -> float:
    """Sustained over stated peak rate of products; above 1 where the clock rises beyond the stated one."""
    highest = 1.0
    if has_power_to_spare(device, matrix_units) and device.max_clock_hertz is not None:
        highest = device.max_clock_hertz / device.clock_hertz
    load = 0.5 if matrix_units else _VECTOR_LOAD * min(1.0, power_needed(device, matrix_units)) ** 2
    clock = highest * math.pow(clock_share(device) / highest, load)
    share = clock * math.sqrt(power_share(device, matrix_units))
    return share * (_ISSUE_SHARE if not matrix_units and is_issue_limited(device) else 1.0)


def clock_share(device: Device) -> float:
    """Base over boost clock, the typical one where the base clock is not published."""
    if device.base_clock_hertz is None:
        return TYPICAL_BASE_OVER_BOOST
    return min(1.0, device.base_clock_hertz / device.clock_hertz)


def has_power_to_spare(device: Device, matrix_units: bool) -> bool:
    """Whether a board's clock may rise beyond the stated one, and products leave it the power to.

    Tensor cores of GeForce boards add up in single precision at half the rate of the same die's other boards,
    in more watts: what limits those does not limit these. Ordinary units of the larger ones take all their
    power.
    """
    return device.max_clock_hertz is not None and power_share(device, matrix_units) == 1.0


def power_share(device: Device, matrix_units: bool) -> float:
    """Power per peak flop over what the full clock takes, at most 1; 1 where it is not known."""
    return min(1.0, 1.0 / power_needed(device, matrix_units))


def power_needed(device: Device, matrix_units: bool) -> float:
    """What products at the full clock take, over the board's power; 1 where it is not known."""
    if device.power_watts is None or device.operation_energy is None:
        return 1.0
    peak, picojoules = device.vector_flops_per_second[DType.FP32], _VECTOR_PICOJOULES
    if matrix_units:
        sixteen_bit = [device.matrix_flops_per_second.get(d) for d in (DType.BF16, DType.FP16)]
        peak, picojoules = next((p for p in sixteen_bit if p), peak), _MATRIX_PICOJOULES
    needed_watts = peak * picojoules * 1e-12 * device.operation_energy
    return needed_watts / device.power_watts


def is_issue_limited(device: Device) -> bool:
    """Whether a scheduler has 32 fp32 lanes, so that the peak needs a multiply-add in every slot."""
    if device.vendor != "nvidia":
        return False
    schedulers = _SCHEDULERS.get(device.compute_capability, 4)
    lanes = device.vector_flops_per_second[DType.FP32] / (2 * device.clock_hertz * device.num_sms)
    return lanes / schedulers > 24
