"""Take the sample of measured rows that perfcast ships: few of each kind, of tables whose licences allow it.

    python docs/tools/sample.py --data DIR    # DIR has the collections by folder: neusight, kernels, …

Rows are drawn evenly over strata (device, operation, source) by a hash of the row: equal tables give equal
samples. A row is shipped as it was read, with its source beside it where the table has one.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from perfcast.evidence.dataset.shipped import SAMPLE
from perfcast.evidence.validate.sampling import sample

Row = dict[str, Any]
#: Of published runs: those whose sources are repositories under the licences that NOTICE names.
RUN_SOURCES = ("vTrain", "mosaicml/llm-foundry", "BigScience", "SimuMax", "NVIDIA/Megatron-LM README")
#: Licences of tables that state one for each row.
LICENCES = ("Apache-2.0", "MIT", "MIT-0", "BSD-3-Clause", "BSD-3-Clause (NVIDIA)")


def drawn(rows: Sequence[Row], most: int, *strata: str) -> list[Row]:
    """At most so many rows, evenly over the values of some columns."""
    return sample(
        rows, most, lambda row: json.dumps(row, sort_keys=True), lambda row: tuple(row[key] for key in strata)
    )


def read(path: Path) -> list[Row]:
    """Rows of a table, every cell of a CSV as it is written."""
    if path.suffix == ".parquet":
        return pl.read_parquet(path).to_dicts()
    return pl.read_csv(path, infer_schema_length=0).to_dicts()


def write_csv(name: str, rows: Sequence[Row]) -> None:
    """A compressed CSV whose bytes depend on the rows alone."""
    text = io.BytesIO()
    pl.DataFrame(rows, infer_schema_length=None).write_csv(text)
    with (SAMPLE / name).open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(text.getvalue())


def take_neusight(data: Path) -> None:
    """Whole steps, and kernels of their test tables."""
    (SAMPLE / "steps.csv").write_bytes((data / "neusight/steps.csv").read_bytes())
    for stem in ("bmm_test", "linear_test", "elem_test", "softmax_test", "ln_test"):
        rows = read(data / f"neusight/{stem}.parquet")
        pl.DataFrame(drawn(rows, 150, "device"), infer_schema_length=None).write_parquet(
            SAMPLE / f"{stem}.parquet", compression="zstd"
        )


def take_kernels(data: Path) -> None:
    """Kernels of serving frameworks."""
    for device in ("a100_sxm", "h100_sxm", "b200_sxm"):
        write_csv(f"gemm_{device}.csv.gz", drawn(read(data / f"kernels/gemm_{device}.csv.gz"), 240, "dtype"))
        for family in ("attention_context", "attention_generation"):
            rows = read(data / f"kernels/{family}_{device}.csv.gz")
            write_csv(f"{family}_{device}.csv.gz", drawn(rows, 160, "framework", "kv_cache_dtype"))
    write_csv(
        "moe_h100_sxm.csv.gz",
        drawn(read(data / "kernels/moe_h100_sxm.csv.gz"), 240, "framework", "moe_dtype"),
    )


def take_communication(data: Path) -> None:
    """Collectives of many systems."""
    rows = [row for row in read(data / "collectives/collectives.parquet") if _may_ship(row)]
    chosen = drawn(rows, 1200, "source_repo", "gpu", "collective", "num_nodes")
    pl.DataFrame(chosen, infer_schema_length=None).write_parquet(
        SAMPLE / "collectives.parquet", compression="zstd"
    )


def take_runs(data: Path) -> None:
    """Published training runs, peaks of memory, and points under load."""
    runs = [
        row for row in read(data / "published/training.csv") if str(row["source"]).startswith(RUN_SOURCES)
    ]
    write_csv("training.csv.gz", drawn(runs, 160, "source", "model"))
    peaks = [row for row in read(data / "memory/peak_memory.csv") if _may_ship(row)]
    write_csv("peak_memory.csv.gz", drawn(peaks, 120, "source_repo", "model"))
    stem = "inference_ttft_tpot_aiconfigurator"
    write_csv(
        f"{stem}.csv.gz", drawn(read(data / f"published/{stem}.csv.gz"), 48, "backend", "mode", "model_path")
    )


def take_vision(data: Path) -> None:
    """Steps of image models of timm, and lines of NVIDIA's examples (which need no timm)."""
    lines = [
        json.loads(line) for line in (data / "vision/nvidia_examples.jsonl").read_text("utf-8").splitlines()
    ]
    places = ("PyTorch/Classification/ConvNets/resnet50v1.5", "PyTorch/LanguageModeling/BERT")
    whole = [line for line in lines if line["source_file"].startswith(places)]
    few = drawn(whole, 24, "source_file", "section")
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in few)
    (SAMPLE / "nvidia_examples.jsonl").write_text(text, encoding="utf-8")
    write_csv(
        "timm.csv.gz", drawn(read(data / "vision/timm.csv.gz"), 40, "device", "mode", "dtype", "compiled")
    )


def _may_ship(row: Row) -> bool:
    return row.get("license") in LICENCES


def main() -> None:
    """Write the sample anew."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    data: Path = parser.parse_args().data
    SAMPLE.mkdir(exist_ok=True)
    takers: tuple[Callable[[Path], None], ...] = (
        take_neusight,
        take_kernels,
        take_communication,
        take_runs,
        take_vision,
    )
    for take in takers:
        take(data)


if __name__ == "__main__":
    main()
