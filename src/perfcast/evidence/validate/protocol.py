"""What a suite states about itself, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from perfcast.cost.learned.store import MODEL_NAMES, WEIGHTS, read_content
from perfcast.evidence.validate.kernels.pricers import is_trained
from perfcast.evidence.validate.kernels.trained import find_trained, learned_from
from perfcast.published.nets.store import read_record
from perfcast.published.registry import find_entry

QUALITY = (
    "rows whose measurement fails a check (above peak, below launch floor, a known fault of a table) are "
    "scored like the others; their key 'quality' names the verdict, and the summary has them apart"
)


_DRAWN_EVENLY = (
    "evenly over table, device, dtype and framework (small groups whole), by a fixed hash of table, line and "
    "framework; unreadable lines are groups of their own, by table and reason"
)


def describe_sampling(total: int, taken: int, what: str = "cases", how: str = _DRAWN_EVENLY) -> str:
    """All cases, or how they were drawn."""
    return f"all {total} {what}" if taken == total else f"{taken} of {total} {what}, {how}"


def describe_learned(folder: Path | None, tables: Iterable[str]) -> list[str]:
    """One sentence per model: rows, devices and tables of its training, and which tables are scored here."""
    scored, sentences = set(tables), []
    for model in MODEL_NAMES:
        if not is_trained(model, folder):
            sentences.append(f"{model}: no trained weights; rows that need it, if any, are skipped")
            continue
        record: Mapping[str, Any] = read_content(model, folder or WEIGHTS)["record"]
        sentences.append(f"{model}: {_describe_record(record, scored)}")
    return sentences


def _describe_record(record: Mapping[str, Any], scored: set[str]) -> str:
    if "tables" not in record:
        return "trained weights without a record"
    left_out = ", ".join(record["left_out"]) or "no device"
    seen = sorted(scored & set(record["tables"]))
    overlap = (
        f"of the tables scored here it learned from {', '.join(seen)}, on those devices alone"
        if seen
        else "none of the tables scored here was learned from"
    )
    devices = ", ".join(record["devices"])
    return f"fitted on {record['num_rows']} rows of {devices}; left out: {left_out}; {overlap}"


def describe_published(name: str, dies: Collection[str] = ()) -> str:
    """What a predictor of the registry learned from."""
    entry = find_entry(name)
    if not entry.is_trained:
        return f"{entry.description}; datasheet figures only, nothing fitted"
    texts = [entry.description]
    for vendor in ("nvidia", "amd"):
        folder = find_trained(name, vendor, dies)
        if folder is None:
            texts.append(f"{vendor}: not trained" + (" without these devices" if dies else ""))
            continue
        record = read_record(folder, name)
        devices = ", ".join(learned_from(record, vendor))
        texts.append(f"{vendor}: learned from {devices}, seed 0{_epochs_of(record)}")
    return "; ".join(texts)


def _epochs_of(record: Mapping[str, Any]) -> str:
    """', epochs: linear 100, bmm 40'; '' of a fit without epochs."""
    counts = {net: of["num_epochs"] for net, of in record.get("nets", {}).items() if "num_epochs" in of}
    return ", epochs: " + ", ".join(f"{net} {count}" for net, count in counts.items()) if counts else ""


def describe_predictors(
    names: Sequence[str], folder: Path | None, tables: Iterable[str], dies: Collection[str] = ()
) -> dict[str, Any]:
    """What each predictor was fitted on."""
    texts: dict[str, Any] = {}
    for name in names:
        if name == "learned":
            texts[name] = describe_learned(folder, tables)
        elif name == "learned:blind":
            texts[name] = "learned, averaged in logarithms over sglang, trtllm and vllm; gemm tables only"
        else:
            texts[name] = describe_published(name, dies)
    return texts
