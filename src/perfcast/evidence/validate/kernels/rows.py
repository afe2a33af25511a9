"""Cases × predictors → prices, all kernels of one family at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from perfcast.catalogs.devices import load_device_entries
from perfcast.core.arrays import Integers, Objects
from perfcast.core.kernel import KernelFamily, join_kernel_tables
from perfcast.evidence.dataset.words import encode
from perfcast.evidence.validate.kernels.cases import Cases
from perfcast.evidence.validate.kernels.pricers import Pricer, Prices
from perfcast.evidence.validate.result import PricedCases


def price_cases(
    cases: Sequence[Cases],
    pricers: Sequence[Pricer],
    labels: Mapping[int, Mapping[str, Objects]] | None = None,
) -> list[PricedCases]:
    """What every predictor says of every case; a predictor that does not cover a table is left out there."""
    prices: dict[int, dict[str, Prices]] = {number: {} for number in range(len(cases))}
    for pricer in pricers:
        covered = [number for number, part in enumerate(cases) if pricer.covers(part.kind)]
        for number in covered:
            prices[number][pricer.name] = Prices.none(len(cases[number]), "")
            prices[number][pricer.name].reason[:] = cases[number].reason
        for numbers in _by_family(cases, covered).values():
            _price_family(cases, numbers, pricer, prices)
    return [
        PricedCases(part, prices[number], part.judge(), (labels or {}).get(number, {}))
        for number, part in enumerate(cases)
        if prices[number]
    ]


def _by_family(cases: Sequence[Cases], numbers: Sequence[int]) -> dict[KernelFamily, list[int]]:
    families: defaultdict[KernelFamily, list[int]] = defaultdict(list)
    for number in numbers:
        kernels = cases[number].kernels
        if kernels is not None and (cases[number].reason == "").any():
            families[kernels.family].append(number)
    return families


def _price_family(
    cases: Sequence[Cases],
    numbers: Sequence[int],
    pricer: Pricer,
    prices: Mapping[int, dict[str, Prices]],
) -> None:
    sound = [np.flatnonzero(cases[number].reason == "") for number in numbers]
    chosen = [cases[number].take(rows) for number, rows in zip(numbers, sound, strict=True)]
    kernels = join_kernel_tables([part.kernels for part in chosen if part.kernels is not None])
    names, index = encode(np.concatenate([part.catalog_device for part in chosen]))
    entries = load_device_entries()
    answer = pricer.price(kernels, [entries[name].device for name in names], index)
    answer = _without_unpriced(answer)
    start = 0
    for number, rows in zip(numbers, sound, strict=True):
        mine: Integers = np.arange(start, start + len(rows))
        prices[number][pricer.name].put(rows, answer.take(mine))
        start += len(rows)


def _without_unpriced(answer: Prices) -> Prices:
    """A kernel with a reason has no figures."""
    none = answer.reason != ""
    nothing = np.nan
    return Prices(
        np.where(none, nothing, answer.seconds),
        np.where(none, nothing, answer.low),
        np.where(none, nothing, answer.high),
        np.where(none, "", answer.provenance).astype(object),
        answer.reason,
    )
