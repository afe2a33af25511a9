"""How sure a comparison of two placements is.

Prices of lookups err in part alike for all tables (what the cost says of this device) and in part for each
table on its own (what it says of that table). The common part hardly changes which placement is faster; a
table's own does, since placements group tables differently. Half of the variance of a single table's price is
taken as common, and collectives err on their own, common to all placements. Errors are drawn as log-normal
factors; both placements meet the same draws:

    seconds of a rank, drawn = seconds · common · Σ w e^(σ z of the table) / Σ w,
    w = seconds of a piece alone
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfcast.core.arrays import Floats
from perfcast.searches.sharding.options import ShardOptions
from perfcast.searches.sharding.placement import Placed, count_pieces, time_placements
from perfcast.searches.sharding.problem import ShardingProblem

_NUM_DRAWS = 400
_COMMON_VARIANCE = 0.5
#: Half-width of a 90 % interval over the standard deviation.
_HALF_WIDTH = 1.645
#: 90 % half-width of a collective's price as a logarithm: ``cost/collective`` states 0.69 to 1.83 of it.
_COMMUNICATION_SPREAD = 0.49


@dataclass(frozen=True, eq=False)
class Draws:
    """Factors on prices, d draws.

    Attributes:
        tables: Of every table's lookups, its own part, shape [d, T].
        common: Of all lookups, shape [d].
        communication: Of all collectives, shape [d].
    """

    tables: Floats
    common: Floats
    communication: Floats


def draw_errors(problem: ShardingProblem, *, seed: int = 0) -> Draws:
    """Factors from the spread of the cost."""
    generator = np.random.default_rng(seed)
    sigma, count = problem.cost.relative_spread, len(problem.tables)
    own = generator.standard_normal((_NUM_DRAWS, count)) * sigma * np.sqrt(1 - _COMMON_VARIANCE)
    common = generator.standard_normal(_NUM_DRAWS) * np.sqrt(_COMMON_VARIANCE) * sigma
    communication = generator.standard_normal(_NUM_DRAWS) * _COMMUNICATION_SPREAD / _HALF_WIDTH
    return Draws(np.exp(own), np.exp(common), np.exp(communication))


def drawn_steps(problem: ShardingProblem, options: ShardOptions, placed: Placed, draws: Draws) -> Floats:
    """The step under every draw, shape [d]."""
    phases = time_placements(problem, options, [placed])
    weights = (count_pieces(placed, problem.num_ranks) * options.seconds[list(placed.options)]).T
    total = weights.sum(axis=0)
    shares = weights / np.where(total > 0, total, 1.0)
    factors = draws.common[:, None] * (draws.tables @ shares)
    lookups = (factors * phases.forward[0]).max(axis=1) + (factors * phases.backward[0]).max(axis=1)
    steps: Floats = lookups + draws.communication * float(phases.communication[0])
    return steps


def step_interval(
    problem: ShardingProblem, options: ShardOptions, placed: Placed, draws: Draws
) -> tuple[float, float]:
    """90 % interval of a step."""
    low, high = np.quantile(drawn_steps(problem, options, placed, draws), (0.05, 0.95))
    return float(low), float(high)


def gain_interval(
    problem: ShardingProblem, options: ShardOptions, chosen: Placed, other: Placed, draws: Draws
) -> tuple[float, float]:
    """90 % interval of how much longer ``other`` takes than ``chosen``, less 1."""
    mine = drawn_steps(problem, options, chosen, draws)
    theirs = drawn_steps(problem, options, other, draws)
    low, high = np.quantile(theirs / np.where(mine > 0, mine, 1.0), (0.05, 0.95))
    return float(low) - 1, float(high) - 1
