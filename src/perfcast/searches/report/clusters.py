"""One job over several clusters: which is best, and why one of them cannot do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfcast.errors import PlanError
from perfcast.searches.ranking.objectives import OBJECTIVES
from perfcast.searches.result import SearchResult


@dataclass(frozen=True)
class ClusterOutcome:
    """What became of one cluster.

    Attributes:
        asked: As the user named it.
        result: None where ``reason`` says why no plan is left.
    """

    asked: str
    result: SearchResult | None
    reason: str = ""


@dataclass(frozen=True)
class ClusterComparison:
    """Clusters in the order asked for.

    Attributes:
        ranking: Places of ``outcomes`` with a plan, best first; of equals the one asked for first.
    """

    objective: str
    outcomes: tuple[ClusterOutcome, ...]
    ranking: tuple[int, ...]

    @property
    def results(self) -> tuple[SearchResult, ...]:
        """Of clusters with a plan, best first."""
        found = (self.outcomes[at].result for at in self.ranking)
        return tuple(result for result in found if result is not None)


def compare_clusters(clusters: Sequence[str], search: Callable[[str], SearchResult]) -> ClusterComparison:
    """Search every cluster and order them by their winners.

    Args:
        clusters: Names, each searched once.
        search: One cluster's search; a ``PlanError`` says that it has no plan.

    Raises:
        PlanError: No cluster has a plan; says why, of each.
    """
    outcomes = []
    for name in dict.fromkeys(clusters):
        try:
            outcomes.append(ClusterOutcome(name, search(name)))
        except PlanError as error:
            outcomes.append(ClusterOutcome(name, None, str(error)))
    if not any(outcome.result for outcome in outcomes):
        if len(outcomes) == 1:
            raise PlanError(outcomes[0].reason)
        raise PlanError("no cluster has a plan; " + "; ".join(f"{o.asked}: {o.reason}" for o in outcomes))
    objective = next(outcome.result.objective for outcome in outcomes if outcome.result)
    return ClusterComparison(objective, tuple(outcomes), _ranking(objective, outcomes))


def _ranking(objective: str, outcomes: Sequence[ClusterOutcome]) -> tuple[int, ...]:
    """Of equal values the faster step is better."""
    sign = -1.0 if OBJECTIVES[objective].larger_is_better else 1.0
    found = {at: o.result.winner for at, o in enumerate(outcomes) if o.result is not None}
    return tuple(sorted(found, key=lambda at: (sign * found[at].value, found[at].step_seconds, at)))
