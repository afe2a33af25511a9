"""Which deployments keep the limits, which are best, and which no other beats."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfcast.core.arrays import Flags, Floats, Integers
from perfcast.searches.ranking.pareto import pareto_front
from perfcast.searches.serving.request import DeploymentObjective, DeploymentSearchRequest
from perfcast.searches.serving.space import Deployments
from perfcast.searches.serving.weigh import Weighed


def excess(
    request: DeploymentSearchRequest, found: Weighed, factors: Mapping[str, Floats] | None = None
) -> Floats:
    """The worst of each row's times over its limit, shape (n,): at most 1 keeps all; infinite without end.

    Args:
        factors: Of 'first', 'token' and 'whole': what events make of a formula's time, shape (n,).
    """
    limits = request.limits
    rows = (
        ("first", limits.time_to_first_token_seconds, found.first_seconds),
        ("token", limits.time_per_output_token_seconds, found.token_seconds),
        ("whole", limits.end_to_end_seconds, found.whole_seconds),
    )
    worst = np.where(found.is_stable, 0.0, np.inf)
    for name, limit, seconds in rows:
        if limit is not None:
            factor = 1.0 if factors is None else factors[name]
            worst = np.maximum(worst, seconds * factor / limit)
    return np.asarray(np.where(np.isnan(worst), np.inf, worst))


def cost(objective: DeploymentObjective, found: Weighed) -> Floats:
    """What is to be small, shape (n,)."""
    return {
        "tokens-per-second": -found.tokens_per_second_per_device,
        "dollars-per-token": found.dollars_per_token,
        "devices": found.num_devices.astype(float),
        "latency": found.whole_seconds,
    }[objective]


def order(request: DeploymentSearchRequest, found: Weighed, keeps: Flags) -> Integers:
    """Rows that keep the limits, the best first; of equals the sooner done, then the fewer devices."""
    rows = np.flatnonzero(keeps)
    keys = (
        found.num_devices[rows],
        found.whole_seconds[rows],
        _rounded(cost(request.objective, found)[rows]),
    )
    return np.asarray(rows[np.lexsort(keys)])


def _rounded(values: Floats) -> Floats:
    """To a thousandth: formulas do not tell closer ones apart."""
    safe = np.where(np.isfinite(values) & (values != 0), np.abs(values), 1.0)
    digits = 10.0 ** (3 - np.floor(np.log10(safe)))
    return np.asarray(np.where(np.isfinite(values), np.round(values * digits) / digits, values))


def kinds_of(rows: Deployments, replica_of: Integers) -> Integers:
    """A number for each row that those share which differ in limits and load alone.

    Args:
        replica_of: A number of each replica's cluster, precision and plan.
    """
    columns = np.stack(
        [
            np.where(rows.is_split, replica_of[rows.reader], -1),
            replica_of[rows.writer],
            rows.readers,
            rows.writers,
        ],
        axis=1,
    )
    _, numbers = np.unique(columns, axis=0, return_inverse=True)
    return np.asarray(numbers.reshape(-1), dtype=np.int64)


def front(found: Weighed, rows: Integers) -> Integers:
    """Of some rows those that none beats in a device's throughput, a user's speed (and dollars) at once."""
    costs = [-found.tokens_per_second_per_device[rows], -found.user_tokens_per_second[rows]]
    dollars = found.dollars_per_token[rows]
    if len(rows) and not np.isnan(dollars).any():
        costs.append(dollars)
    return np.asarray(rows[pareto_front(np.stack(costs, axis=1))])
