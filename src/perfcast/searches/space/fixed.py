"""What a user may fix of a plan (``--fix tp=8``): keys that a search varies, and their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfcast.core.plan import Plan
from perfcast.core.plans.table import COLUMNS, WORDS
from perfcast.core.plans.text import KEY_OF_FIELD, OVERLAPS, PLAN_KEYS, PlanValue, parse_plan
from perfcast.errors import InputError, PlanError, UnknownNameError
from perfcast.ranges import ANY_NUMBER, excerpt, read_whole

#: Columns of plans that a search does not vary.
_UNVARIED = ("num_prefetched",)
#: Key → field of the dimensions of a search; layers of stages are a column of their own.
KEYS: Mapping[str, str] = {
    key: field
    for field, key in KEY_OF_FIELD.items()
    if field == "stage_layers" or (field in COLUMNS and field not in _UNVARIED)
}

#: What another fixed key makes idle, whatever else a search varies: the degree that is 1, and why.
_IDLE: Mapping[str, tuple[str, str]] = {
    "cp_type": ("cp", "cp=1 cuts no sequence"),
    "overlap_tensor": ("tp", "tp=1 sends nothing"),
}


def read_fixed(*texts: str) -> dict[str, PlanValue]:
    """``'tp=8,zero=1,stages=balanced'`` → what a space is fixed to, by key.

    Raises:
        UnknownNameError: Not a key of plans, or not one that a search varies; names those that are close.
        PlanError: A value that no plan can have.
    """
    for text in texts:
        if not text.strip(", "):
            raise PlanError(f"--fix '{text}': nothing is fixed; give KEY=VALUE, such as tp=8")
    stated = parse_plan(",".join(texts), "--fix")
    fixed = {
        KEY_OF_FIELD[field]: value for field, value in stated.items() if not _is_left_as_usual(field, value)
    }
    check_keys(list(fixed))
    for key, (degree, why) in _IDLE.items():
        if fixed.get(key) and fixed.get(degree) == 1:
            raise PlanError(
                f"--fix {write_fixed({key: fixed[key]})} has no effect: {why}; leave one of them out"
            )
    return fixed


def _is_left_as_usual(field: str, value: PlanValue) -> bool:
    """Whether it is of ``overlap=…``, which states all overlaps, and one that no search varies."""
    is_overlap = field in OVERLAPS.values() and KEY_OF_FIELD[field] not in KEYS
    return is_overlap and value == getattr(Plan(), field)


def write_fixed(fixed: Mapping[str, PlanValue], separator: str = ",") -> str:
    """What ``read_fixed`` reads as these values."""
    return separator.join(f"{key}={PLAN_KEYS[key].write(value)}" for key, value in fixed.items())


def check_keys(keys: Sequence[str]) -> None:
    """Refuse what is no dimension of a search.

    Raises:
        UnknownNameError: The first such key, with close ones.
    """
    for key in keys:
        if key not in KEYS:
            raise UnknownNameError("dimension of a search", key, KEYS, f"Known: {', '.join(KEYS)}.")


def check_word(key: str, value: object) -> None:
    """Refuse a word that is not in its list.

    Raises:
        PlanError: With all that are.
    """
    words = WORDS[KEYS[key]]
    if value not in words:
        raise PlanError(f"{key}={value}: must be one of {', '.join(words)}")


def code_of(key: str, value: object) -> int:
    """A value as its column holds it.

    Raises:
        PlanError: A word that is not in its list, or no number where one is meant.
    """
    words = WORDS.get(KEYS[key])
    if words is not None:
        check_word(key, value)
        return words.index(str(value))
    try:
        return read_whole("", str(int(value) if isinstance(value, bool) else value), ANY_NUMBER)
    except InputError:
        raise PlanError(f"{key}={excerpt(value)}: not a whole number") from None


def allowed(fixed: Mapping[str, PlanValue], key: str, values: Sequence[int]) -> list[int]:
    """Values of a dimension that a fixed one leaves: itself, if it is among them."""
    if key not in fixed:
        return list(values)
    wanted = code_of(key, fixed[key])
    return [value for value in values if value == wanted]


def chosen(fixed: Mapping[str, PlanValue], key: str, values: Sequence[int | str]) -> list[int]:
    """Values of a free choice as columns hold them: the fixed one, whatever else would be tried."""
    return [code_of(key, value) for value in ([fixed[key]] if key in fixed else values)]
