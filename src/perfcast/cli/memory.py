"""``perfcast memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.shared import (
    DEFAULT_DTYPE,
    PLAN_DTYPE,
    attention_kernels,
    output_options,
    request_options,
    workload_options,
)
from perfcast.cli.output import Outputs, write_answer
from perfcast.core.plan_choice import choose_plan, is_one_device
from perfcast.core.plan_text import PlanValues, parse_plan

if TYPE_CHECKING:
    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.footprint import PlanMemory
    from perfcast.core.forecast.largest import Largest
    from perfcast.memory.compare import Comparison
    from perfcast.prediction import Request


@click.command()
@workload_options(requires_device=True)
@click.option("--largest-batch", is_flag=True, help="Search the largest batch of one forward that fits.")
@click.option("--largest-sequence", is_flag=True, help="Search the largest sequence length that fits.")
@click.option(
    "--allocator", default="", help="PyTorch's allocator settings, such as expandable_segments:True."
)
@click.option("--world-size", type=int, help="Ranks of a parallel FILE.py:FUNCTION; sizes are one rank's.")
@click.option("--rank", type=int, default=0, show_default=True, help="With --world-size: which of them.")
@click.option("--fit", is_flag=True, help="Say what would make it fit, and what that costs.")
@click.option("--cluster", metavar="NAME", help="With --fit: the links that changes are timed on.")
@click.option(
    "--framework", help="Whose habits a plan follows: pytorch, fsdp, megatron, nanotron, deepspeed."
)
@click.option(
    "--closed-form", is_flag=True, help="Compare with the closed form of a plan, difference by difference."
)
@output_options(html=True, timeline=False)
def memory(
    model: str,
    device: str,
    largest_batch: bool,
    largest_sequence: bool,
    allocator: str,
    fit: bool,
    cluster: str | None,
    framework: str | None,
    closed_form: bool,
    json_path: str | None,
    html: str | None,
    **options: Any,
) -> None:
    """Forecast the memory of one step of MODEL: the peak, what it consists of, and whether it fits.

    One device runs the captured model, tensor by tensor. A plan over several (--devices, --plan), --fit and
    --framework use a closed form of transformers.

    With --largest-batch or --largest-sequence, MODEL is captured at several sizes until the largest that fits
    is known; the forecast is then of that size.
    """
    from perfcast.prediction import Request, predict_memory

    outputs = Outputs(json=json_path, html=html)
    outputs.check()
    if largest_batch and largest_sequence:
        raise click.UsageError("choose one of --largest-batch and --largest-sequence")
    if cluster and not fit:
        raise click.UsageError("--cluster is what --fit times changes on; links take no memory")
    values = parse_plan(options["plan"])
    if fit or framework or not is_one_device(values, options["devices"]):
        if largest_batch or largest_sequence or allocator:
            raise click.UsageError("--largest-batch, --largest-sequence and --allocator are of one device")
        _refuse_what_plans_ignore(framework, closed_form, options)
        _write_plan(_predict_plan(model, device, values, framework, fit, cluster, options), outputs)
        return
    largest = None
    if largest_batch or largest_sequence:
        quantity = "batch_size" if largest_batch else "sequence_length"
        forecast, largest = _search(model, device, quantity, allocator, request_options(**options))
    else:
        forecast = predict_memory(model, device, allocator=allocator, **request_options(**options))
    comparison = None
    if closed_form:
        comparison = _compare(forecast, Request(model=model, **request_options(**options)))
    _write(forecast, largest, comparison, outputs)


def _compare(forecast: Forecast, request: Request) -> Comparison:
    from perfcast.prediction.one_device.closed_form import compare_with_closed_form

    return compare_with_closed_form(request, forecast)


def _refuse_what_plans_ignore(framework: str | None, closed_form: bool, options: dict[str, Any]) -> None:
    """Options that the closed form of a plan has no use for.

    Raises:
        UsageError: One of them is given.
    """
    given = {
        "--compile": options["compile"],
        "--optimizer-implementation": options["optimizer_implementation"],
        "--closed-form": closed_form,
        "--world-size": options["world_size"],
    }
    refused = [name for name, value in given.items() if value]
    if refused:
        raise click.UsageError(
            f"{', '.join(refused)}: of a captured model; a plan has a closed form of its own"
        )
    if options["mode"] not in ("prefill", "decode"):
        return
    if framework:
        raise click.UsageError(f"--framework {framework}: of a training; --mode {options['mode']} has none")
    if options["attention"] == "eager":
        raise click.UsageError(
            f"--attention eager: --mode {options['mode']} under a plan has fused attention only"
        )


def _predict_plan(
    model: str,
    device: str,
    values: PlanValues,
    framework: str | None,
    fit: bool,
    cluster: str | None,
    options: dict[str, Any],
) -> PlanMemory:
    from perfcast.core.training import DTYPES, FRAMEWORKS, OPTIMIZERS, Training
    from perfcast.core.words import known_word
    from perfcast.prediction.plan.memory import default_framework, predict_plan_memory

    is_alone = is_one_device(values, options["devices"])
    plan, _ = choose_plan(
        values,
        options["devices"] if options["devices"] != 1 else None,
        mode=options["mode"],
        batch_size=options["batch_size"],
        micro_batch_size=options["micro_batch_size"],
    )
    dtype = options["dtype"] or (DEFAULT_DTYPE if is_alone else PLAN_DTYPE)
    training = None
    if options["mode"] == "train":
        training = Training(
            dtype=known_word("dtype", dtype, DTYPES),
            optimizer=known_word("optimizer", options["optimizer"], OPTIMIZERS),
            framework=known_word("framework", framework or default_framework(plan), FRAMEWORKS),
            attention=attention_kernels(options["attention"]),
        )
    return predict_plan_memory(
        model,
        device,
        plan,
        mode=options["mode"],
        training=training,
        dtype=dtype,
        sequence_length=options["sequence_length"],
        fit=fit,
        cluster=cluster,
    )


def _write_plan(result: PlanMemory, outputs: Outputs) -> None:
    from perfcast.report.data.plan_memory import data_of
    from perfcast.report.documents.plan_memory import document_of

    write_answer(outputs, lambda: document_of(result), lambda: data_of(result))


def _search(
    model: str, device: str, quantity: str, allocator: str, options: dict[str, Any]
) -> tuple[Forecast, Largest]:
    """Search with progress on standard error; Ctrl-C ends it with the best so far.

    Raises:
        KeyboardInterrupt: Before any size was known.
    """
    from rich.console import Console

    from perfcast.prediction import Request
    from perfcast.prediction.names import memory_device
    from perfcast.prediction.one_device.largest import LargestSearch
    from perfcast.units import format_bytes

    search = LargestSearch(Request(model=model, **options), memory_device(device), quantity, allocator)
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
    )
