"""How many different places the copies of a token visit, by expectation."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenRouting:
    """Where a router sends a token: k of E experts, of which the best few of some groups may be considered.

    Attributes:
        num_experts, experts_per_token: E and k.
        num_groups, groups_per_token: Node-limited routing: experts stand in so many groups of equal size, and
            those of so many groups only are considered (DeepSeek-V3, section 2.1.2: 8 and 4); 1 and 1
            without.
    """

    num_experts: int
    experts_per_token: int
    num_groups: int = 1
    groups_per_token: int = 1

    def expected_places(self, num_places: int) -> float:
        """Different places that a token visits, of some that hold equally many experts each; all are alike.

        A place of m experts is missed with C(E' - m', k) / C(E', k), where E' experts are considered, m' of
        them at the place: m where its groups were chosen, and so many groups are chosen of those of a place
        as drawing without putting back has it.
        """
        size = self.num_experts / num_places
        group_size = self.num_experts / self.num_groups
        considered = group_size * self.groups_per_token
        groups_of_place = max(size / group_size, 1.0)
        at_once = min(size, group_size)
        missed = 0.0
        for chosen in range(min(math.ceil(groups_of_place), self.groups_per_token) + 1):
            likely = _drawn(self.num_groups, groups_of_place, self.groups_per_token, chosen)
            missed += likely * _none_of(considered, chosen * at_once, self.experts_per_token)
        return num_places * (1.0 - missed)


def _drawn(total: float, marked: float, draws: int, found: int) -> float:
    """Probability to find so many of the marked ones, drawing without putting back."""
    rest = total - marked
    if draws - found > rest + 1e-9:
        return 0.0
    return _choose(marked, found) * _choose(rest, draws - found) / _choose(total, draws)


def _none_of(total: float, marked: float, draws: int) -> float:
    """Probability to draw none of the marked ones without putting back."""
    return math.prod(max((total - marked - i) / (total - i), 0.0) for i in range(draws) if total > i)


def _choose(total: float, some: int) -> float:
    return math.prod((total - i) / (some - i) for i in range(some))
