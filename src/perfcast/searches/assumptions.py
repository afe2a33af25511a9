"""What a search took for granted, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfcast.cost.host_link import has_host_link
from perfcast.searches.evaluation.evaluate import Evaluation
from perfcast.searches.evaluation.fewest_layers import MARGIN
from perfcast.searches.ranking.simulator import Simulated
from perfcast.searches.resolve import ResolvedSearch


def assumptions_of(
    search: ResolvedSearch, simulated: Sequence[Simulated], evaluation: Evaluation
) -> tuple[str, ...]:
    """Of a search on one cluster."""
    training = search.request.training
    notes = [f"framework {training.framework}, {training.dtype}, {training.optimizer}"]
    notes.append(
        "plans of all frameworks' schedules and settings (--any-framework)"
        if search.request.any_framework
        else f"only plans that {search.request.framework_title} can run; --any-framework offers others too"
    )
    if not has_host_link(search.device):
        notes.append(f"nothing offloaded: the rate of {search.device.name}'s link to its host is not known")
    if search.space.recompute_layers is None and "recompute_layers" not in search.space.fixed:
        count = int((evaluation.plans.recompute_layers > 0).sum())
        notes.append(
            "of plans that must compute layers again, the fewest layers that fit were tried where the step "
            f"may be within {100 * MARGIN:g} % of the fastest of the others: {count:,} plans"
        )
    if simulated:
        formula = evaluation.step_seconds[[one.place for one in simulated]]
        apart = np.array([one.time.step_seconds for one in simulated]) / formula - 1
        notes.append(
            f"all plans by formula; {len(simulated):,} of them simulated event by event, best bounds first; "
            f"their steps lie {100 * apart.min():+.1f} to {100 * apart.max():+.1f} % off their formulas"
        )
    return tuple(notes)
