"""Lines → what ran: program, device, precision, batch, devices; and how long a step of it took.

A line gives one case for each precision that it states a throughput or a latency of. A row that states none
gives one case that says which column is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from perfcast.evidence.validate.vision.examples.cells import read_number, read_of_precision
from perfcast.evidence.validate.vision.examples.lines import STEM, Line
from perfcast.evidence.validate.vision.examples.measured import Measured, read_measured
from perfcast.evidence.validate.vision.examples.programs.registry import PROGRAMS
from perfcast.evidence.validate.vision.examples.setups import ModeSetup, Setup, load_setups

UNSUPPORTED = "unsupported operation"
UNKNOWN_DEVICE = "unknown device"
Mode = Literal["train", "inference"]
#: Catalog names by device and its memory; the first one where a section does not say.
_CATALOG: Mapping[str, Mapping[str, str]] = {
    "a100": {"80gb": "a100-sxm-80gb", "40gb": "a100-sxm-40gb"},
    "v100": {"32gb": "v100-sxm-32gb", "16gb": "v100-sxm-16gb"},
    "t4": {"16gb": "t4"},
    "h100": {"80gb": "h100-sxm"},
}
#: Columns that are sizes of a program.
_SIZES = ("sequence_length", "memory length", "wn channels")
#: Catalog clusters by system, and by device where a section names no system.
_CLUSTERS = {
    "dgx-1": "dgx-1-v100",
    "dgx-2": "dgx-2",
    "dgx-2h": "dgx-2",
    "dgx-a100": "dgx-a100",
    "dgx-h100": "dgx-h100",
    "v100": "dgx-1-v100",
    "a100": "dgx-a100",
    "h100": "dgx-h100",
}


@dataclass(frozen=True)
class ExampleCase:
    """One step of one program in one precision.

    Attributes:
        row: 0-based line, or 'nvidia_examples:line:precision' where a line gives several.
        precision: 'fp32', 'tf32', 'fp16' or 'bf16'.
        dtype: The same, with 'amp_' where autocast keeps fp32 weights.
        micro_batch: Of one device, in the units of the batch column.
        accumulation: Micro-batches of a step.
        measured_seconds: Of a step.
        skipped: A reason of the fixed list.
    """

    row: int | str
    line: Line
    mode: Mode
    precision: str = ""
    dtype: str = ""
    program: str = ""
    variant: str = ""
    catalog_device: str | None = None
    cluster: str | None = None
    num_devices: int = 1
    micro_batch: int = 0
    accumulation: int = 1
    channels_last: bool = False
    setup: ModeSetup = field(default_factory=ModeSetup)
    options: tuple[tuple[str, float], ...] = ()
    measured_seconds: float | None = None
    skipped: str | None = None

    @property
    def is_training(self) -> bool:
        """Whether the step has a backward and an optimizer."""
        return self.mode == "train"

    @property
    def device(self) -> str:
        """As spelled, blanks as underscores."""
        return (self.line.system or "unknown").replace(" ", "_")


def read_cases(lines: Sequence[Line]) -> list[ExampleCase]:
    """All cases of all lines, in order."""
    return [case for line in lines for case in _cases_of(line)]


def _cases_of(line: Line) -> Iterator[ExampleCase]:
    mode: Mode = "inference" if line.is_inference else "train"
    setup = load_setups().get(line.source_file)
    if setup is None:
        yield ExampleCase(line.row, line, mode, skipped=UNSUPPORTED)
        return
    found = list(_measured(line, setup))
    if not found:
        yield ExampleCase(line.row, line, mode, skipped="incomplete: throughput")
        return
    for precision, variant, measured in found:
        row = line.row if len(found) == 1 else f"{STEM}:{line.row}:{precision}"
        yield _case(row, line, mode, setup, precision, variant, measured)


def _measured(line: Line, setup: Setup) -> Iterator[tuple[str, str, Measured]]:
    """Precision ('' where none is known), way of running and figures of each case."""
    base = "tf32" if line.device in ("a100", "h100") else "fp32"
    own = _own_precision(line, setup, base)
    for measured in read_measured(line, setup, base):
        precision, _, variant = (measured.precision or own).partition(" ")
        yield precision, variant, measured


def _own_precision(line: Line, setup: Setup, base: str) -> str:
    """What column, section, or place among tables says of a whole row: 'fp16', 'tf32 torchscript', ''."""
    stated = line.configuration.get("precision", "").lower()
    if stated:
        return "fp16" if stated == "mixed" else stated
    section = line.section.lower()
    for words, precision in (
        ("mixed precision", "fp16"),
        ("tf32", "tf32"),
        ("fp32", "fp32"),
        ("fp16", "fp16"),
    ):
        if f"{words} inference" in section:
            return precision
    if line.is_inference and line.table < len(setup.tables):
        return setup.tables[line.table].replace("base", base)
    return ""


def _case(
    row: int | str, line: Line, mode: Mode, setup: Setup, precision: str, variant: str, measured: Measured
) -> ExampleCase:
    chosen = setup.mode(mode == "train")
    program = program_of(line, setup)
    num_devices = _num_devices(line)
    batch, accumulation = _batches(line, setup, chosen, program, precision)
    options = {**chosen.options, **_options(line), **measured.options}
    skipped = _missing(line, chosen, program, precision, batch)
    step = 0.0 if skipped else float(batch or 0) * accumulation * num_devices
    items = chosen.items_of(program)
    seconds = measured.seconds(None if items is None else items * step)
    if seconds is None and skipped is None:
        skipped = "incomplete: throughput"
    is_mixed = precision in ("fp16", "bf16") and (mode == "train" or chosen.mixed == "autocast")
    return ExampleCase(
        row=row,
        line=line,
        mode=mode,
        precision=precision,
        dtype=f"amp_{precision}" if is_mixed else precision,
        program=program,
        variant=variant or chosen.variant,
        catalog_device=_catalog_device(line),
        cluster=_CLUSTERS.get(line.box or line.device) if num_devices > 1 else None,
        num_devices=num_devices,
        micro_batch=int(batch or 0),
        accumulation=accumulation,
        channels_last=chosen.is_channels_last(program, precision),
        setup=chosen,
        options=tuple(sorted(options.items())),
        measured_seconds=seconds,
        skipped=skipped,
    )


def _missing(line: Line, mode: ModeSetup, program: str, precision: str, batch: float | None) -> str | None:
    """Why a row cannot be forecast, if so."""
    if not precision:
        return "incomplete: precision"
    if mode.unsupported or program not in PROGRAMS:
        return UNSUPPORTED
    if not batch:
        return "incomplete: batch size"
    return None if _catalog_device(line) else UNKNOWN_DEVICE


def program_of(line: Line, setup: Setup) -> str:
    """The program's name, from the setup's pattern and the row's cells."""
    cells = {key: cell.lower() for key, cell in line.configuration.items()}
    columns = {heading.text.lower() for heading in line.headings}
    for column, names in setup.repeats.items():
        if column in columns:
            return names[min(line.table, len(names) - 1)]
    for key, named in setup.with_column.items():
        if key in cells:
            return named
    name = setup.program.replace("{part}", line.part)
    for key, cell in cells.items():
        name = name.replace(f"{{{key}}}", cell)
    return name


def _catalog_device(line: Line) -> str | None:
    names = _CATALOG.get(line.device, {})
    return names.get(line.memory) if line.memory else next(iter(names.values()), None)


def _num_devices(line: Line) -> int:
    cells = line.configuration
    nodes, gpus = read_number(cells.get("nodes", "")), read_number(cells.get("gpus", ""))
    if nodes is not None:
        per_node = read_number(cells.get("gpus_per_node", "")) or (
            16 if line.box in ("dgx-2", "dgx-2h") else 8
        )
        return int(nodes * per_node)
    return int(gpus or 1)


def _batches(
    line: Line, setup: Setup, mode: ModeSetup, program: str, precision: str
) -> tuple[float | None, int]:
    """Micro-batch of a device, and micro-batches of a step."""
    cells = line.configuration
    accumulation = _of_precision(line, setup, "accumulation", precision) or 1
    batch = _of_precision(line, setup, "batch_size", precision)
    if batch is None and setup.rows and line.is_inference:
        batch = _row_of(line, setup).get("batch_size")
    if batch is None:
        batch = mode.stated_batch(program, line.device, line.memory, precision)
    if batch is not None and mode.batch_is == "accumulated" and "accumulated_batch" not in cells:
        batch = batch / accumulation
    return batch, int(accumulation)


def _of_precision(line: Line, setup: Setup, key: str, precision: str) -> float | None:
    cell = line.configuration.get(key)
    if cell is None:
        return None
    return read_of_precision(cell, line.order.get(key) or setup.order, precision)


def _row_of(line: Line, setup: Setup) -> dict[str, float]:
    """Batch size and seconds by the row's place in its table, below one row of further headings."""
    sizes, seconds = setup.rows["batch_size"], setup.rows["seconds"]
    place = line.index - 1
    if not 0 <= place < len(sizes) * len(seconds):
        return {}
    return {"batch_size": sizes[place % len(sizes)], "seconds": seconds[place // len(sizes)]}


def _options(line: Line) -> dict[str, float]:
    """Sizes that the row states, or that its place in a table says."""
    setup = load_setups()[line.source_file]
    stated = {name: read_number(line.configuration.get(name, "")) for name in _SIZES}
    found = {name: value for name, value in stated.items() if value is not None}
    if setup.rows and line.is_inference and "seconds" in _row_of(line, setup):
        found["seconds"] = _row_of(line, setup)["seconds"]
    return found
