"""``perfcast memory``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from perfcast.cli.options.given import is_given
from perfcast.cli.options.pack import packed
from perfcast.cli.options.shared import (
    StepOptions,
    device_request,
    framework_option,
    step_options,
    training_of,
)
from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.core.dtype import AUTO
from perfcast.core.plans.choice import choose_plan

if TYPE_CHECKING:
    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.largest import Largest
    from perfcast.memory_use.compare import Comparison
    from perfcast.prediction.one_device.largest import Quantity
    from perfcast.prediction.request.memory import MemoryRequest, PlanMemoryRequest


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """What is asked of the memory of a step, as the options give it."""

    largest_batch: bool
    largest_sequence: bool
    allocator: str
    world_size: int | None
    rank: int
    fit: bool
    cluster: str | None
    framework: str | None
    closed_form: bool


memory_options = packed(
    MemoryOptions,
    "own",
    click.option("--largest-batch", is_flag=True, help="Search the largest batch of one forward that fits."),
    click.option("--largest-sequence", is_flag=True, help="Search the largest sequence length that fits."),
    click.option(
        "--allocator", default="", help="PyTorch's allocator settings, such as expandable_segments:True."
    ),
    click.option(
        "--world-size", type=int, help="Ranks of a parallel FILE.py:FUNCTION; sizes are one rank's."
    ),
    click.option("--rank", type=int, default=0, show_default=True, help="With --world-size: which of them."),
    click.option("--fit", is_flag=True, help="Say what would make it fit, and what that costs."),
    click.option("--cluster", metavar="NAME", help="With --fit: the links that changes are timed on."),
    framework_option(),
    click.option(
        "--closed-form",
        is_flag=True,
        help="Compare with the closed form of a plan, difference by difference.",
    ),
)


@click.command()
@step_options(requires_device=True)
@memory_options
@output_options(html=True, fit=True)
def memory(step: StepOptions, own: MemoryOptions, outputs: Outputs) -> None:
    """Forecast the memory of one step of MODEL: the peak, what it consists of, and whether it fits.

    The model's own modules on one device are captured, tensor by tensor. A plan over several (--devices,
    --plan), a framework's kernels (--framework; of inference the default) and --fit use a closed form of
    transformers.

    With --largest-batch or --largest-sequence, MODEL is captured at several sizes until the largest that fits
    is known; the forecast is then of that size.
    """
    if own.largest_batch and own.largest_sequence:
        raise click.UsageError("choose one of --largest-batch and --largest-sequence")
    if own.cluster and not own.fit:
        raise click.UsageError("--cluster is what --fit times changes on; links take no memory")
    step.tuning(step.mode)  # refused where nothing trains, whoever answers
    if own.fit or not _is_captured(step, own):
        _answer_plan(build_plan_request(step, own), outputs)
    else:
        _answer(build_request(step, own), own, outputs)


def _is_captured(step: StepOptions, own: MemoryOptions) -> bool:
    """Whether one device runs the model's own modules.

    Raises:
        InputError: A framework that cannot run the model.
    """
    from perfcast.prediction.model import read_model
    from perfcast.prediction.program import choose_program

    if own.world_size is not None and step.is_of_one_device:
        return True
    if not step.is_of_one_device:
        return False
    program = choose_program(
        read_model(step.model),
        step.mode,
        framework=own.framework,
        compiles=step.compile,
        is_local=step.device == "cpu",
    )
    return program.is_captured


def build_request(step: StepOptions, own: MemoryOptions) -> MemoryRequest:
    """The captured model on one device.

    Raises:
        InputError: Values that no step can have.
    """
    from perfcast.prediction.request.memory import MemoryRequest

    assert step.device is not None
    return MemoryRequest(
        workload=device_request(step, world_size=own.world_size, rank=own.rank),
        device=step.device,
        allocator=own.allocator,
    )


def build_plan_request(step: StepOptions, own: MemoryOptions) -> PlanMemoryRequest:
    """A transformer under a plan, by the closed form.

    Raises:
        InputError: A plan or words that no training has.
        UsageError: Options that the closed form has no use for.
    """
    from perfcast.prediction.defaults import choose_defaults
    from perfcast.prediction.model import read_model
    from perfcast.prediction.names import resolve_device
    from perfcast.prediction.program import choose_program
    from perfcast.prediction.request.memory import PlanMemoryRequest

    _refuse_what_plans_ignore(step, own)
    assert step.device is not None
    plan, _ = choose_plan(
        step.plan,
        step.devices if step.devices != 1 else None,
        mode=step.mode,
        batch_size=step.batch_size,
        micro_batch_size=step.micro_batch_size,
    )
    model, device = read_model(step.model), resolve_device(step.device)
    program = choose_program(model, step.mode, plan, framework=own.framework, compiles=step.compile)
    chosen = choose_defaults(
        model, step.mode, device, dtype=step.dtype or AUTO, sequence_length=step.sequence_length
    )
    training = None
    if step.mode == "train":
        training = training_of(step, program.framework, chosen.dtype)
    return PlanMemoryRequest(
        model=step.model,
        device=step.device,
        plan=plan,
        recompute_is_open="recompute" not in step.plan,
        mode=step.mode,
        training=training,
        dtype=chosen.dtype,
        kv_cache_dtype=step.kv_cache_dtype,
        framework=program.framework,
        compiles=step.compile,
        sequence_length=chosen.sequence_length,
        fit=own.fit,
        cluster=own.cluster,
        defaults=chosen.notes,
    )


def _refuse_what_plans_ignore(step: StepOptions, own: MemoryOptions) -> None:
    if own.largest_batch or own.largest_sequence or own.allocator:
        raise click.UsageError(
            "--largest-batch, --largest-sequence and --allocator are of one device that runs the "
            "model's own modules (--framework pytorch)"
        )
    given = {
        "--optimizer-implementation": step.optimizer_implementation,
        "--closed-form": own.closed_form,
        "--world-size": own.world_size,
        "--image-size": step.image_size,
        "--memory-format": is_given("memory_format"),
        "--autocast": step.autocast,
    }
    refused = [name for name, value in given.items() if value]
    if refused:
        raise click.UsageError(
            f"{', '.join(refused)}: of a captured model; a plan has a closed form of its own"
        )
    if step.mode == "train":
        return
    if step.attention == "eager":
        raise click.UsageError(f"--attention eager: --mode {step.mode} under a plan has fused attention only")


def _answer_plan(request: PlanMemoryRequest, outputs: Outputs) -> None:
    from perfcast.prediction.plan.memory import forecast_plan_memory
    from perfcast.report.data.plan_memory import data_of
    from perfcast.report.documents.plan_memory import document_of

    result = forecast_plan_memory(request)
    write_answer(outputs, lambda: document_of(result), lambda: data_of(result), fits=(result.fit,))


def _answer(request: MemoryRequest, own: MemoryOptions, outputs: Outputs) -> None:
    from perfcast.prediction.one_device.memory import forecast_memory

    largest: Largest | None = None
    if own.largest_batch or own.largest_sequence:
        forecast, largest = _search(request, "batch_size" if own.largest_batch else "sequence_length")
    else:
        forecast = forecast_memory(request)
    comparison = None
    if own.closed_form:
        from perfcast.prediction.one_device.closed_form import compare_with_closed_form

        comparison = compare_with_closed_form(request.workload, forecast)
    _write(forecast, largest, comparison, outputs)


def _search(request: MemoryRequest, quantity: Quantity) -> tuple[Forecast, Largest]:
    """Search with progress on standard error; Ctrl-C ends it with the best so far.

    Raises:
        KeyboardInterrupt: Before any size was known.
    """
    from rich.console import Console

    from perfcast.prediction.one_device.largest import LargestSearch
    from perfcast.units import format_bytes

    search = LargestSearch(request, quantity)
    console = Console(stderr=True, highlight=False)
    words = quantity.replace("_", " ")
    try:
        with console.status(f"trying {words} …") as status:
            search.run(
                lambda probe: status.update(
                    f"{words} {probe.size} needs {format_bytes(probe.needed_bytes)}; trying the next …"
                )
            )
    except KeyboardInterrupt:
        if not search.result.probes:
            raise
    return search.forecast(), search.result


def _write(
    forecast: Forecast, largest: Largest | None, comparison: Comparison | None, outputs: Outputs
) -> None:
    from perfcast.report.data.memory import data_of
    from perfcast.report.documents.memory import document_of

    write_answer(
        outputs,
        lambda: document_of(forecast, largest, comparison),
        lambda: data_of(forecast, largest, comparison),
        fits=(forecast.fit,),
    )
