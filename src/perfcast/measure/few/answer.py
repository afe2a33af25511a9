"""One question of ``perfcast measure kernels`` and its answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from perfcast.catalogs.devices import find_device_name
from perfcast.core.machine.hardware import Device
from perfcast.cost.learned.corrections.measured import corrections_path
from perfcast.errors import CalibrationError
from perfcast.measure.few.bench import Bench, open_bench
from perfcast.measure.few.compare import Comparison, compare_kernels
from perfcast.measure.few.design import FEW, choose_cases
from perfcast.measure.few.run import Progress, Run, import_kernels, measure_kernels
from perfcast.prediction import resolve_device

_HERE = "cuda"


@dataclass(frozen=True, kw_only=True)
class MeasureRequest:
    """What is asked.

    Attributes:
        device: 'cuda' or 'cuda:N', a GPU of this machine, by the name that the driver gives it; else how the
            GPU here is described: a name of the catalog or a ``.toml`` file. '' with a source: as that says.
        quick: The designed few; else all kernels that may be measured.
        restart: Forget what was measured of the device before.
        source: A file of kernels measured elsewhere; None to measure here.
    """

    device: str = _HERE
    quick: bool = False
    restart: bool = False
    source: Path | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class MeasuredAnswer:
    """The measurement, and what it did to forecasts of its own kernels.

    Attributes:
        path: Where it is kept.
    """

    device: Device
    run: Run
    comparisons: tuple[Comparison, ...]
    path: Path

    def to_json(self) -> dict[str, object]:
        """The file of measured kernels, which ``--from`` takes, with what is said beside it."""
        return {
            **self.run.measured.to_json(),
            "left_out": [asdict(each) for each in self.run.left_out],
            "slowdown": self.run.slowdown,
            "forecasts": [asdict(each) for each in self.comparisons],
        }


def answer_measurement(
    request: MeasureRequest,
    progress: Progress = lambda done, total: None,
    bench_of: Callable[[str], Bench] | None = None,
) -> MeasuredAnswer:
    """Measure, or take over what was measured elsewhere.

    Args:
        bench_of: A stand-in for ``bench.open_bench``.

    Raises:
        CalibrationError: No such device here, one that the catalog does not know, or a file that cannot be.
    """
    if request.source is not None:
        named = None if request.device in ("", _HERE) else resolve_device(request.device)
        run, device = import_kernels(request.source, named, request.folder, resolve_device)
    else:
        is_here = request.device.partition(":")[0] == _HERE
        bench = (bench_of or open_bench)(request.device if is_here else _HERE)
        device = _named(bench.processor) if is_here else _described(request.device, bench.processor)
        cases = choose_cases(device, FEW if request.quick else None)
        limit = {} if request.quick else {"most_seconds": float("inf")}
        run = measure_kernels(device, bench, cases, request.folder, request.restart, progress, **limit)
    path = corrections_path(device.name, request.folder)
    return MeasuredAnswer(device, run, compare_kernels(run.measured, device), path)


def _named(processor: str) -> Device:
    """The catalog's device of a driver's name."""
    name = find_device_name(processor)
    if name is None:
        raise CalibrationError(
            f"the catalog does not know '{processor}': describe it by its datasheet as examples/my_gpu.toml "
            "does, then say --device FILE.toml here and in forecasts"
        )
    return resolve_device(name)


def _described(device: str, processor: str) -> Device:
    """A device as the user describes it, unless the GPU here is known to be another."""
    described, known = resolve_device(device), find_device_name(processor)
    if known is not None and known != described.name and not device.endswith(".toml"):
        raise CalibrationError(f"the GPU here is '{processor}', which is {known}, not {described.name}")
    return described
