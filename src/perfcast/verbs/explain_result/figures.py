"""Two answers as JSON, figure by figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest

from perfcast.report.data.explained_result import FigureData

#: Keys that are of a run, and not of its answer: where it comes from, how long it took, where it was kept.
OF_A_RUN = ("origin", "perfcast_version", "timings", "store")
#: Relative. Vectorised logarithms and sums round differently from processor to processor.
ROUNDING = 1e-9
_MISSING = object()


def compare_figures(then: object, now: object) -> tuple[int, tuple[FigureData, ...]]:
    """How many figures and texts there are, and those that differ, the most different first.

    What differs by rounding alone is equal; keys of a run are left out.
    """
    pairs = list(_pairs(then, now, ""))
    different = (_difference(path, first, second) for path, first, second in pairs)
    found = [one for one in different if one is not None]
    return len(pairs), tuple(sorted(found, key=lambda one: -abs(one.relative or float("inf"))))


def _pairs(then: object, now: object, path: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        for key in dict.fromkeys((*then, *now)):
            if key not in OF_A_RUN:
                below = f"{path}.{key}" if path else str(key)
                yield from _pairs(then.get(key, _MISSING), now.get(key, _MISSING), below)
    elif isinstance(then, list) and isinstance(now, list):
        for place, (first, second) in enumerate(zip_longest(then, now, fillvalue=_MISSING)):
            yield from _pairs(first, second, f"{path}[{place}]")
    else:
        yield path, then, now


def _difference(path: str, then: object, now: object) -> FigureData | None:
    if _is_number(then) and _is_number(now):
        assert isinstance(then, int | float)
        assert isinstance(now, int | float)
        if then == now or abs(now - then) <= ROUNDING * max(abs(then), abs(now)):
            return None
        relative = now / then - 1 if then else None
        return FigureData(path=path, then=f"{then:.12g}", now=f"{now:.12g}", relative=relative)
    if then == now and isinstance(then, bool) == isinstance(now, bool):
        return None
    return FigureData(path=path, then=_text(then), now=_text(now), relative=None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    if value is _MISSING:
        return "(nothing)"
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
