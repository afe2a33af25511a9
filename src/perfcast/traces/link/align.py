"""Two sequences of names, aligned: which items are the same where a few were added, dropped or swapped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence

#: Beyond this many additions and omissions, plus a share of the length, sequences are unrelated.
_FREE_EDITS, _EDITS_PER_ITEM = 64, 0.02
_MAX_EDITS = 512
#: Items that stand this far apart at most may have been swapped.
_SWAP_REACH = 16
_ANCHOR_LENGTH, _MAX_ANCHORS = 24, 64


def align(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Pairs of places that hold the same item, rising in both sequences but for close swaps.

    Where one sequence is much longer, the other is sought within it. Empty where the two are unrelated.
    """
    codes: dict[Hashable, int] = {}
    return _align(
        [codes.setdefault(item, len(codes)) for item in first],
        [codes.setdefault(item, len(codes)) for item in second],
    )


def _align(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    if len(first) > len(second):
        return [(a, b) for b, a in _align(second, first)]
    whole = _aligned(first, second)
    if whole or len(first) >= len(second) - _allowed_edits(len(first)):
        return whole
    for start in _anchors(first, second):
        window = second[start : start + len(first)]
        found = _aligned(first, window)
        if found:
            return [(a, b + start) for a, b in found]
    return []


def _allowed_edits(length: int) -> int:
    return min(_FREE_EDITS + int(length * _EDITS_PER_ITEM), _MAX_EDITS)


def _anchors(first: Sequence[int], second: Sequence[int]) -> list[int]:
    """Places in ``second`` where the start of ``first`` stands word for word."""
    start = list(first[:_ANCHOR_LENGTH])
    places = (
        i for i, item in enumerate(second) if item == start[0] and list(second[i : i + len(start)]) == start
    )
    return [place for place, _ in zip(places, range(_MAX_ANCHORS), strict=False)] if start else []


def _aligned(first: Sequence[int], second: Sequence[int]) -> list[tuple[int, int]]:
    limit = _allowed_edits(min(len(first), len(second)))
    common = (Counter(first) & Counter(second)).total()
    if len(first) + len(second) - 2 * common > limit:
        return []
    pairs = _shortest_edit(first, second, limit)
    return sorted(pairs + _swapped(first, second, pairs)) if pairs else []


def _shortest_edit(first: Sequence[int], second: Sequence[int], limit: int) -> list[tuple[int, int]]:
    """The pairs that the shortest edit keeps, or none where it takes more than ``limit`` edits.

    Greedy furthest-reaching paths: E. Myers, An O(ND) Difference Algorithm and Its Variations, 1986.
    """
    furthest: dict[int, int] = {1: 0}
    history: list[dict[int, int]] = []
    for edits in range(limit + 1):
        history.append(dict(furthest))
        for diagonal in range(-edits, edits + 1, 2):
            down = diagonal == -edits or (
                diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            x = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < len(first) and y < len(second) and first[x] == second[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(first) and y >= len(second):
                return _traced(history, len(first), len(second))
    return []


def _traced(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Walk the paths back from the end and gather what was kept."""
    pairs: list[tuple[int, int]] = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, diagonal = history[edits], x - y
        down = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        before_x = furthest.get(before, 0) if edits else 0
        before_y = before_x - before if edits else 0
        while x > before_x and y > before_y:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        x, y = before_x, before_y
    return pairs[::-1]


def _swapped(
    first: Sequence[int], second: Sequence[int], pairs: list[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Items left over on both sides that are the same and stand close to each other."""
    kept_first, kept_second = {a for a, _ in pairs}, {b for _, b in pairs}
    partner = dict(pairs)
    left: dict[int, list[int]] = {}
    for place, item in enumerate(second):
        if place not in kept_second:
            left.setdefault(item, []).append(place)
    found, shift = [], 0
    for place, item in enumerate(first):
        if place in kept_first:
            shift = partner[place] - place
            continue
        near = [other for other in left.get(item, ()) if abs(other - place - shift) <= _SWAP_REACH]
        if near:
            left[item].remove(near[0])
            found.append((place, near[0]))
    return found
