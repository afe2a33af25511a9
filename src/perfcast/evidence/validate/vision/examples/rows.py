"""Rows of the contract for ``nvidia_examples.jsonl``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from perfcast.evidence.validate.row import Row
from perfcast.evidence.validate.vision.examples.cases import ExampleCase, read_cases
from perfcast.evidence.validate.vision.examples.forecast import ExampleForecast, forecast_examples
from perfcast.evidence.validate.vision.examples.lines import STEM, read_lines

FILE = f"{STEM}.jsonl"
PROTOCOL = (
    "nvidia_examples: tables of NVIDIA/DeepLearningExamples as its READMEs print them. The published "
    "architectures as plain modules, in the sizes and with the batch, precision, memory format and "
    "optimizer of that repository's scripts (setups.toml names them); mixed precision is autocast in "
    "training, and in inference what the script does. Several devices are replicas under "
    "DistributedDataParallel on the catalog's system. Measured: the mean latency of a batch, or samples "
    "of a step over throughput; where the mean lies above its own 95th percentile, or is printed with "
    "fewer than three digits, the throughput. Loading of data, logging and searches on the host are "
    "inside what was measured and in no forecast: rows that they bound are slower than forecast. The time "
    "of the host for an operator of a program rests on EfficientNet's latencies at batch 1; nothing else "
    "was fitted on these rows. TorchScript is forecast as run eagerly. Rows that state accuracy or time to "
    "train alone are skipped as incomplete."
)


def example_cases(path: Path) -> list[ExampleCase]:
    """Every case of the file; see ``read_cases``."""
    return read_cases(read_lines(path))


def score_examples(
    cases: Sequence[ExampleCase], predictors: Sequence[str], say: Callable[[str], None] = lambda text: None
) -> list[Row]:
    """One row per case and predictor, in the order of the file."""
    place = {id(case): index for index, case in enumerate(cases)}
    found = [
        (place[id(case)], predictors.index(name), _row(case, name, forecast))
        for case, name, forecast in forecast_examples(cases, predictors, say)
    ]
    return [row for _, _, row in sorted(found, key=lambda item: item[:2])]


def _row(case: ExampleCase, predictor: str, forecast: ExampleForecast) -> Row:
    return Row(
        suite="vision",
        table=STEM,
        row=case.row,
        device=case.device,
        catalog_device=case.catalog_device,
        predictor=predictor,
        columns=_columns(case),
        operation="step",
        dtype=case.dtype or None,
        framework="pytorch",
        mode=case.mode,
        predicted_seconds=forecast.seconds,
        predicted_seconds_low=forecast.low,
        predicted_seconds_high=forecast.high,
        measured_seconds=case.measured_seconds,
        provenance=forecast.provenance,
        skipped=forecast.skipped,
    )


def _columns(case: ExampleCase) -> dict[str, Any]:
    """What was run as it was understood, then the file's configuration columns verbatim."""
    line = case.line
    understood: dict[str, Any] = {
        "model": case.program or None,
        "memory_format": "channels_last" if case.channels_last else "contiguous",
        "compiled": False,
        "variant": case.variant or None,
        "micro_batch_size": case.micro_batch or None,
        "accumulation_steps": case.accumulation,
        "num_devices": case.num_devices,
        "source_file": line.source_file,
        "section": line.section,
    }
    stated = {h.text: line.columns[h.text] for h in line.headings if not h.is_result and h.text}
    return {**stated, **understood}
