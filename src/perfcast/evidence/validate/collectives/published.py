"""The errors that others state for the same measurements, beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from perfcast.evidence.validate.result import PricedCases
from perfcast.evidence.validate.summary import describe_errors
from perfcast.units import GIB, MIB

#: Number of GPUs → mean absolute relative error of ASTRA-sim on all-reduce in one HGX H100.
ASTRA_SIM = {2: 0.206, 4: 0.120, 8: 0.097}
PUBLISHED = (
    "the group 'ASTRA-sim on HGX H100' has our mean error on all-reduce of NCCL among 2, 4 and 8 H100 of one "
    "node, 1 MB to 1 GB, beside the geometric mean of errors that ASTRA-sim's documentation states for its "
    "own measurements (https://astra-sim.github.io, validation on HGX-H100, rings only): 20.6, 12.0 and 9.7 %"
)
GROUP = "ASTRA-sim on HGX H100"
_LEAST_BYTES, _MOST_BYTES = MIB, GIB


def compare_published(priced: Sequence[PricedCases]) -> Iterator[dict[str, Any]]:
    """One entry per predictor and number of GPUs, with the published error."""
    names = dict.fromkeys(name for part in priced for name in part.prices)
    for gpus, published in ASTRA_SIM.items():
        for name in names:
            errors = np.concatenate([np.zeros(0), *(_errors(part, name, gpus) for part in priced)])
            if not len(errors):
                continue
            yield {
                "predictor": name,
                "group": GROUP,
                "value": f"{gpus} GPUs",
                "n": len(errors),
                "skipped": 0,
                **describe_errors(errors),
                "published_mean_absolute_relative_error": published,
            }


def _errors(part: PricedCases, predictor: str, gpus: int) -> np.ndarray:
    prices, cases = part.prices[predictor], part.cases
    sizes = cases.columns["size_bytes"].cast(float, strict=False).fill_null(0.0).to_numpy()
    chosen = (
        np.array([text.startswith("dgx-h100, ") for text in part.labels["group"]])
        & (cases.columns["num_gpus"].cast(float, strict=False).fill_null(0.0).to_numpy() == gpus)
        & (cases.columns["num_nodes"].cast(float, strict=False).fill_null(0.0).to_numpy() == 1)
        & (cases.operation == "all_reduce")
        & (prices.reason == "")
        & (sizes >= _LEAST_BYTES)
        & (sizes <= _MOST_BYTES)
        & (cases.seconds > 0)
    )
    errors: np.ndarray = prices.seconds[chosen] / cases.seconds[chosen] - 1
    return errors
