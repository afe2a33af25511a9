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
from perfcast.core.plan_choice import choose_plan, is_one_device
from perfcast.core.plan_text import PlanValues, parse_plan

if TYPE_CHECKING:
    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.footprint import PlanMemory
    from perfcast.core.forecast.largest import Largest
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
@click.option(
    "--framework", help="Whose habits a plan follows: pytorch, fsdp, megatron, nanotron, deepspeed."
)
@click.option("--closed-form", is_flag=True, help="Compare with the closed form, difference by difference.")
@output_options(html=True, timeline=False)
def memory(
    model: str,
    device: str,
    largest_batch: bool,
    largest_sequence: bool,
    allocator: str,
    fit: bool,
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
    from perfcast.files import check_writable
    from perfcast.prediction import Request, predict_memory

    for path in (json_path, html):
        check_writable(path)
    if largest_batch and largest_sequence:
        raise click.UsageError("choose one of --largest-batch and --largest-sequence")
    values = parse_plan(options["plan"])
    if fit or framework or not is_one_device(values, options["devices"]):
        if largest_batch or largest_sequence or allocator:
            raise click.UsageError("--largest-batch, --largest-sequence and --allocator are of one device")
        _refuse_what_plans_ignore(framework, closed_form, options)
        _write_plan(_predict_plan(model, device, values, framework, fit, options), json_path, html)
        return
    largest = None
    if largest_batch or largest_sequence:
        quantity = "batch_size" if largest_batch else "sequence_length"
        forecast, largest = _search(model, device, quantity, allocator, request_options(**options))
    else:
        forecast = predict_memory(model, device, allocator=allocator, **request_options(**options))
    _write(forecast, largest, json_path, html)
    if closed_form:
        _print_comparison(forecast, Request(model=model, **request_options(**options)), json_path)


def _print_comparison(forecast: Forecast, request: Request, json_path: str | None) -> None:
    from rich.console import Console

    from perfcast.prediction.one_device.closed_form import compare_with_closed_form
    from perfcast.report.memory_text import print_comparison

    print_comparison(
        compare_with_closed_form(request, forecast), Console(highlight=False, stderr=json_path == "-")
    )


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
    )


def _write_plan(result: PlanMemory, json_path: str | None, html: str | None) -> None:
    if json_path:
        from perfcast.report.json_format import write_json
        from perfcast.report.plan_memory_json import plan_memory_to_dict

        write_json(plan_memory_to_dict(result), json_path)
    if html:
        from perfcast.files import write_text_atomically
        from perfcast.report.plan_memory_html import render_plan_memory_html

        write_text_atomically(html, render_plan_memory_html(result))
    if json_path != "-":
        from rich.console import Console

        from perfcast.report.plan_memory_text import print_plan_memory

        print_plan_memory(result, Console(highlight=False))


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


def _write(forecast: Forecast, largest: Largest | None, json_path: str | None, html: str | None) -> None:
    if json_path:
        from perfcast.report.json_format import memory_to_dict, write_json

        write_json(memory_to_dict(forecast, largest), json_path)
    if html:
        from perfcast.files import write_text_atomically
        from perfcast.report.memory_html import render_memory_html

        write_text_atomically(html, render_memory_html(forecast, largest))
    if json_path != "-":
        from rich.console import Console

        from perfcast.report.memory_text import print_largest, print_memory

        console = Console(highlight=False)
        if largest is not None:
            print_largest(largest, console)
        print_memory(forecast, console)
