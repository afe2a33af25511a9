"""The file of constants of processors as devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.cost.processor.work import CLASSES
from perfcast.evidence.train.processor.fit import TERMS, FittedProcessor

#: A processor that nobody measured may be this many times as far off.
_UNMEASURED = 2.0
#: Errors of kinds are joined as if independent; for a step of a spread each needs this power of it.
_OF_ONE_OPERATOR = 1.9
_HEAD = """\
# Constants of processors as devices, by class of operator; 'perfcast train processor --data DIR' writes this.
# Fitted to {count} steps of image models (huggingface/pytorch-image-models results, Apache-2.0: batch 1,
# fp32, compiled) on {devices}. Families of models left out in turn, {families} in all:
# mean error {mean:.1f} %, median {median:.1f} %, nine of ten within a factor {spread:.2f}; spread is of one
# operator, so that a step has it. call: microseconds of one call at 1 GHz; the others are factors on what the
# datasheet says. Weights of convolutions cost several times their traffic: each call brings them into its
# library's own layout.
"""


def format_constants(fitted: FittedProcessor, devices: Sequence[str], families: int) -> str:
    """The file's text."""
    errors = 100 * np.abs(fitted.errors)
    head = _HEAD.format(
        count=len(errors), devices=", ".join(devices), families=families, mean=errors.mean(),
        median=float(np.median(errors)), spread=fitted.spread,
    )  # fmt: skip
    one = fitted.spread**_OF_ONE_OPERATOR
    named = ", ".join(f'"{device}"' for device in devices)
    lines = [
        head,
        f"measured = [{named}]",
        f"spread = {one:.3g}",
        f"unmeasured_spread = {one * _UNMEASURED:.3g}",
    ]
    for term in TERMS:
        lines += ["", f"[{term}]", *(f"{name} = {fitted.constants[term][name]:.4g}" for name in CLASSES)]
    return "\n".join(lines) + "\n"
