"""From a row of a search's tables to the question that forecasts its plan."""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.errors import InputError
from perfcast.server.page.view import Plain

#: Fields that search and forecast share by name.
_SHARED = (
    "mode",
    "dtype",
    "kv_cache_dtype",
    "optimizer",
    "lora",
    "qlora",
    "freeze",
    "framework",
    "compile",
    "cost_model",
)


def question_of_plan(asked: Plain, cells: Mapping[str, str]) -> tuple[str, Plain]:
    """Verb and question of a plan's forecast.

    Args:
        asked: What the search was asked.
        cells: Of the row, by heading.

    Raises:
        InputError: The row states no plan, or the search is of several models, clusters or batches.
    """
    text = cells.get("Plan", "").partition(";")[0].strip()
    if not text:
        raise InputError("this row states no plan")
    found: dict[str, object] = {name: asked[name] for name in _SHARED if name in asked}
    found["model"] = _only(asked, "model")
    found["cluster"] = cells.get("Cluster") or _only(asked, "cluster")
    found["plan"] = ",".join(text.split())
    batch = _only(asked, "global_batch_size")
    if batch is not None:
        found["batch_size"] = batch
    length = _only(asked, "sequence_length")
    if length is not None:
        found["sequence_length"] = length
    return "predict", found


def _only(asked: Plain, name: str) -> object:
    value = asked.get(name)
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise InputError(f"{name}: of a sweep over several; search one of them to look into its plans")
        return value[0]
    return value
