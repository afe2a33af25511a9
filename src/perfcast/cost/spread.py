"""How far real steps lay above a cost model's forecasts.

The figures are the largest measured / predicted of the steps that ``perfcast validate local`` ran on the
machine named in the file, and are rewritten by ``perfcast validate local --write-spread FILE``. They
come from a processor, not from a GPU; until a model has an interval of its own they are the honest
upper end.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from perfcast.errors import UncoveredOperationError


@cache
def load_spread(cost_model: str) -> float:
    """Factor from an estimate to the upper end of its interval, above 1.

    Raises:
        UncoveredOperationError: No spread was ever measured for this cost model.
    """
    text = (resources.files("perfcast.cost") / "weights" / "spread.json").read_text(encoding="utf-8")
    factors = json.loads(text)["measured_over_predicted"]
    if cost_model not in factors:
        raise UncoveredOperationError(f"no measured spread for cost model '{cost_model}'")
    return max(float(factors[cost_model]), 1.05)
