"""Printed errors of the larger nets of NeuSight's study."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from perfcast.published.comparison import Comparison, Figure, print_comparison
from perfcast.published.kernels.study import PAPER

#: Net → mean errors of batched products in percent: sizes and devices like those trained on, and others.
PRINTED_ERRORS = {
    "mlp8": (28.0, 70.9),
    "mlp16": (22.3, 81.4),
    "transformer3": (22.3, 126.1),
    "transformer6": (21.0, 86.4),
}


#: Sizes and devices like those trained on, or others.
Place = Literal["in distribution", "out of it"]
PLACES: tuple[Place, ...] = ("in distribution", "out of it")


def describe_row(net: str, place: Place) -> str:
    """What a row is of."""
    return f"{net}, batched products {place}"


def compare(data: Path | None = None) -> Comparison:
    """The printed errors; ours need trained nets."""
    figures = [
        Figure(what=describe_row(net, place), published=error, ours=None, unit="%", digits=4)
        for net, errors in PRINTED_ERRORS.items()
        for place, error in zip(PLACES, errors, strict=True)
    ]
    return Comparison(
        system="nets",
        paper=PAPER,
        protocol="Mean errors of fp32 batched products. In distribution are devices that were trained on and "
        "sizes of at most 1,024 (ours; the study's own split of sizes is not stated).",
        figures=tuple(figures),
        reason="Ours need a trained net (perfcast train mlp8 --data DIR) and the study's test products "
        "(perfcast published nets --data DIR).",
    )


if __name__ == "__main__":
    print_comparison(compare)
