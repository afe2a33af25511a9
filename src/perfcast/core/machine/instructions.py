"""Instruction families: devices whose matrix units are driven by the same instructions run the same kernels.

A library has one set of product and attention kernels for each way of feeding matrix units, and it is the
kernels that decide how far below the datasheet a device stays. A marketing name does not tell: NVIDIA's
Blackwell is two chips, of which sm_100 has tensor memory and ``tcgen05.mma``, sm_120 neither, so that
libraries drive it as they drive Ampere and Ada, warp by warp with ``mma.sync`` out of 100 kB of shared
memory.

Ordinary arithmetic (fp32, element-wise kernels) is compiled from one source for all devices of a vendor:
there this says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.core.machine.hardware import Device

#: By vendor, the start of a compute capability (gfx name) → family. The longest start that fits counts.
_BY_CAPABILITY: Mapping[str, Mapping[str, str]] = {
    # PTX ISA, §"Warp-level matrix instructions" (mma.sync: m8n8k4 on sm_70, m16n8k8 on sm_75, m16n8k16 with
    # bf16 from sm_80; block-scaled fp4 on sm_120a), §"Asynchronous warpgroup-level matrix instructions"
    # (wgmma: sm_90a alone), §"TensorCore 5th generation family instructions" (tcgen05: sm_100, 101, 103, 110;
    # not sm_120 and 121). Rubin, sm_107, has the instructions of sm_103 (NVIDIA, cuBLASDx performance guide,
    # "API Card: Blackwell Pipeline": "SM 1200-class parts are not on this path").
    "nvidia": {
        "6.": "none before sm_70",
        "7.0": "mma.sync of sm_70",
        "7.5": "mma.sync of sm_75",
        "8.": "mma.sync",
        "9.": "wgmma",
        "10.": "tcgen05",
        "11.": "tcgen05",
        "12.": "mma.sync",
    },
    # LLVM, "User Guide for AMDGPU Backend", and AMD's instruction set guides: CDNA 1 to 4 multiply with
    # V_MFMA, RDNA 3 and later and gfx1250 with V_WMMA, of other shapes and register layouts.
    "amd": {"gfx9": "mfma", "gfx11": "wmma", "gfx12": "wmma of gfx12", "gfx1250": "wmma of gfx1250"},
}
#: By vendor, where devices have no compute capability: the start of an architecture → family.
_BY_ARCHITECTURE: Mapping[str, Mapping[str, str]] = {
    # Intel, "oneAPI GPU Optimization Guide", §"Xe Matrix Extensions": DPAS on Xe-HPG, Xe-HPC and Xe2.
    # Intel, "Gaudi 3 AI Accelerator White Paper" (2024): matrix engines, programmed by a graph compiler.
    "intel": {"xe": "dpas", "gaudi": "gaudi"},
    # Google, "TPU system architecture": systolic arrays, programmed by XLA.
    "google": {"tpu": "mxu"},
    # AWS, "NKI programming guide": systolic tensor engines, programmed by the Neuron compiler.
    "amazon": {"neuron": "neuron"},
}


def instruction_family(device: Device) -> str:
    """What drives a device's matrix units, in one word for all devices that run the same kernels.

    A chip of which nothing is said is a family of its own.
    """
    return find_family(device.vendor, device.architecture, device.compute_capability)


def find_family(vendor: str, architecture: str, compute_capability: str) -> str:
    """The same, of (vendor, architecture, compute capability)."""
    tables = (_BY_CAPABILITY, compute_capability), (_BY_ARCHITECTURE, architecture)
    for table, name in tables:
        starts = [start for start in table.get(vendor, {}) if name.startswith(start)]
        if starts:
            return table[vendor][max(starts, key=len)]
    return " ".join(("alone:", architecture, compute_capability)).strip()
