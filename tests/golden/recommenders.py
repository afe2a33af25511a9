"""Recommendation models: steps on clusters, and placements of tables."""

from __future__ import annotations

from golden.ask import Case
from golden.figures import fingerprint, numbers

_DLRM = "predict dlrm-small --cost-model roofline"
_SHARD = "shard @tables.csv --cluster"

CASES = {
    name: Case(f"{command} --json -", fingerprint)
    for name, command in {
        "dlrm on four": f"{_DLRM} --cluster dgx-a100:4 --batch-size 1024",
        "dlrm on sixteen": f"{_DLRM} --cluster dgx-h100:16 --batch-size 16384",
        "dlrm, sgd, bf16": f"{_DLRM} --cluster dgx-a100:4 --batch-size 1024 --optimizer sgd --dtype bf16",
        "dlrm, learned": "predict dlrm-small --cluster dgx-h100:4 --batch-size 4096",
        "tables on four": f"{_SHARD} dgx-h100:4",
        "tables on sixteen": f"{_SHARD} dgx-a100:16 --batch-size 32768",
        "tables, whole": f"{_SHARD} dgx-h100:4 --kinds table_wise",
        "tables, rows": f"{_SHARD} dgx-h100:4 --kinds row_wise --optimizer sgd",
        "tables, little memory": f"{_SHARD} dgx-h100:2 --memory-share 0.03",
        "tables of an example": "shard @example.csv --cluster dgx-h100:8",
    }.items()
}
CASES["tables on two"] = Case(f"{_SHARD} dgx-h100:2 --json -", numbers)
