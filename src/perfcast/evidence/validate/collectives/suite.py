"""``validate collectives``: measured collectives against the datasheet's forecast and fitted curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfcast.cost.collective.constants import Constants
from perfcast.errors import UnknownNameError
from perfcast.evidence.dataset.words import encode
from perfcast.evidence.validate.collectives.cases import CollectiveCases, read_collectives
from perfcast.evidence.validate.collectives.constants import describe_folds, folds_without
from perfcast.evidence.validate.collectives.pricers import price_datasheet, price_fitted
from perfcast.evidence.validate.collectives.published import PUBLISHED, compare_published
from perfcast.evidence.validate.kernels.pricers import Prices
from perfcast.evidence.validate.protocol import describe_sampling
from perfcast.evidence.validate.result import PricedCases, TableResult
from perfcast.evidence.validate.sampling import DEFAULT_MAX_ROWS, draw_evenly

PREDICTORS = ("datasheet", "fitted")
GROUPS = (
    "all", "sizes", "device", "operation", "source", "size", "skipped", "system", "message", "collection",
    "system, operation", "group, operation", "sizes, collection", "sizes, quality",
)  # fmt: skip
_DATASHEET = (
    "links of the catalog and the constants of cost/collective/constants.toml, the same for every system; "
    "the constants were chosen on these tables (the sources there say how), no link of any system was"
)
_FITTED = (
    "one curve per sweep (rows that differ in nothing but size), fitted on every other size and tested on "
    "the sizes between, both ways round; no row is forecast by a curve that saw its size; sweeps with fewer "
    "than eight sizes are skipped"
)
_ASSUMED = (
    "systems are read from device, interconnect and notes. Where the network between nodes is not stated "
    "(vidur's a100_dgx), the catalog's 'hgx-a100-host-staged' is assumed, which was described after those "
    "measurements; boxes without a stated network have 25 Gb/s Ethernet. A group is taken to be alone."
)


def validate_collectives(
    places: Sequence[Path],
    predictors: Sequence[str] = (),
    *,
    max_rows: int = DEFAULT_MAX_ROWS,
    leave_out: Sequence[str] = (),
    say: Callable[[str], None] = lambda text: None,
) -> TableResult:
    """Price the rows of all measured collectives by every predictor.

    Args:
        places: Folders with ``collectives.parquet`` or ``published_sweeps.csv``, or such files.
        predictors: Of ``PREDICTORS``; all by default.
        leave_out: Devices, or 'each': choose the constants without their dies, and score only those.
        say: Told what goes on.

    Raises:
        InputError: No tables, unknown predictors or devices.
    """
    names = tuple(predictors) or PREDICTORS
    for name in names:
        if name not in PREDICTORS:
            raise UnknownNameError("predictor", name, PREDICTORS, f"Known: {', '.join(PREDICTORS)}.")
    parts = read_collectives(places)
    total = sum(map(len, parts))
    priced: list[PricedCases] = []
    for die, constants in folds_without(parts, leave_out, say):
        for part in parts:
            mine = _draw(_of_die(part, die), max_rows, total)
            if len(mine):
                priced.append(_priced(mine, names, constants))
    taken = sum(len(part.cases) for part in priced)
    say(f"{taken} of {total} rows priced")
    return TableResult(
        "collectives",
        _protocol(names, leave_out, total, taken),
        tuple(priced),
        GROUPS,
        more_summary=tuple(compare_published(priced)),
    )


def _priced(cases: CollectiveCases, names: Sequence[str], constants: Constants | None) -> PricedCases:
    prices: dict[str, Prices] = {}
    if "datasheet" in names:
        prices["datasheet"] = price_datasheet(cases, constants)
    if "fitted" in names:
        prices["fitted"] = price_fitted(cases)
    return PricedCases(cases.cases, prices, cases.quality(), cases.labels())


def _of_die(part: CollectiveCases, die: str | None) -> CollectiveCases:
    return part if die is None else part.take(np.flatnonzero(part.dies == die))


def _draw(part: CollectiveCases, most: int, total: int) -> CollectiveCases:
    """The table's part of the sample, evenly over device, operation, dtype and library."""
    if total <= most:
        return part
    share = max(1, round(most * len(part) / total))
    return part.take(draw_evenly(encode(part.cases.strata)[1], part.cases.keys, share))


def _protocol(names: Sequence[str], leave_out: Sequence[str], total: int, taken: int) -> Mapping[str, Any]:
    fitted = {"datasheet": _DATASHEET, "fitted": _FITTED}
    if leave_out:
        fitted["datasheet"] = describe_folds(leave_out)
    return {
        "forecast": "from the configuration columns of each row alone",
        "measured": "time as stated, else message bytes times the bus factor over the stated bus bandwidth",
        "fitted_on": {name: fitted[name] for name in names},
        "left_out": "all systems of each row's die" if leave_out else "nothing",
        "systems": _ASSUMED,
        "skipped": "kernels that serving frameworks use instead of NCCL are 'unsupported operation'",
        "quality": "rows whose measurement is beyond the link's rate are scored like the others; their key "
        "'quality' says so",
        "published": PUBLISHED,
        "sampling": describe_sampling(total, taken),
    }
