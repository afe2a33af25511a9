"""``perfcast predict``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.cost_model import find_cost_model
from perfcast.cli.options.run import run_options
from perfcast.cli.options.shared import output_options, request_options, workload_options
from perfcast.cli.output import Outputs, write_answer
from perfcast.core.plan_choice import is_one_device
from perfcast.core.plan_text import parse_plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfcast.core.forecast.device import Forecast
    from perfcast.core.forecast.plan import PlanForecast

_OF_A_RUN = (
    "tokens", "mtbf", "restart", "checkpoint_interval", "checkpoint_bandwidth", "async_checkpoint", "pue",
    "price",
)  # fmt: skip


@click.command()
@workload_options(requires_device=False)
@click.option("--cluster", metavar="NAME:N", help="Devices and their links; see 'perfcast catalog clusters'.")
@click.option(
    "--cost-model", help="learned (default), roofline, linear (default for cpu), or a published one."
)
@click.option(
    "--framework",
    help="Whose kernels run: pytorch, sglang, trtllm, vllm; default: pytorch. Training under a plan, whose "
    "program: pytorch, fsdp, megatron, nanotron, deepspeed.",
)
@click.option("--weights", metavar="DIR", help="Trained models for learned; default: the shipped ones.")
@click.option("--world-size", type=int, help="Ranks of a parallel FILE.py:FUNCTION; sizes are one rank's.")
@click.option("--closed-form", is_flag=True, help="Under a plan: formulas of the pipeline, not its events.")
@click.option("--stragglers", metavar="SPEC", help="Under a plan: how ranks differ, such as lognormal:0.02.")
@click.option("--chakra", metavar="DIR", help="Chakra traces of the step; under a plan, for ASTRA-sim.")
@run_options
@output_options(html=True, timeline=True)
def predict(
    model: str,
    device: str | None,
    cluster: str | None,
    world_size: int | None,
    closed_form: bool,
    stragglers: str | None,
    chakra: str | None,
    json_path: str | None,
    html: str | None,
    timeline: str | None,
    **options: Any,
) -> None:
    """Forecast time and memory of one step of MODEL, on one device or under a plan over many.

    MODEL is a catalog name, a Hugging Face config.json or its folder, or FILE.py:FUNCTION, where the
    function returns a module and its example inputs. A plan (--cluster, or --devices with --plan) says how it
    is spread. A function that is itself parallel (FSDP2, tensor parallelism, pipeline stages) takes
    --world-size, and runs as it is written. With --tokens, a training under a plan is followed to its end. A
    recommendation model (DLRM) on several devices is trained with its embedding tables sharded over them.
    """
    outputs = Outputs(json=json_path, html=html, timeline=timeline)
    outputs.check()
    of_run = {name: options.pop(name) for name in _OF_A_RUN}
    values = parse_plan(options["plan"])
    with_spans = bool(html or timeline)
    if closed_form and timeline:
        raise click.UsageError("--timeline: formulas have none; leave --closed-form out")
    if of_run["tokens"] is not None and (world_size is not None or not _has_sizes(model)):
        raise click.UsageError("--tokens: of a transformer by its sizes, whose checkpoints are known")
    if world_size is not None:
        from perfcast.cli.predict.program import forecast_program

        given = {"--closed-form": closed_form, "--stragglers": stragglers, "--chakra": chakra}
        _refuse(given, "of a plan, not of --world-size")
        program = forecast_program(model, device, cluster, world_size, with_spans=with_spans, **options)
        _write(program, of_run, outputs)
    elif (cluster is not None or not is_one_device(values, options["devices"])) and _is_recommender(model):
        from perfcast.cli.predict.recommender import forecast_recommender, write_recommender_forecast

        given = {f"--{name.replace('_', '-')}": value for name, value in of_run.items()}
        _refuse({**given, "--chakra": chakra}, "of a plan")
        options |= {"closed_form": closed_form, "stragglers": stragglers}
        write_recommender_forecast(forecast_recommender(model, cluster, device, values, **options), outputs)
    elif cluster is not None or not is_one_device(values, options["devices"]):
        from perfcast.cli.predict.plan import forecast_plan

        forecast = forecast_plan(
            model, device, cluster, values,
            closed_form=closed_form, stragglers=stragglers, with_spans=with_spans, chakra=chakra, **options,
        )  # fmt: skip
        _write(forecast, of_run, outputs)
    else:
        _refuse({"--closed-form": closed_form, "--stragglers": stragglers}, "of a plan over several devices")
        given = {f"--{name.replace('_', '-')}": value for name, value in of_run.items()}
        _refuse(given, "of a plan; one device is --cluster NAME:1")
        if device is None:
            raise click.UsageError("where does it run? give --device NAME, or --cluster NAME:N")
        _predict_one_device(model, device, outputs, chakra, **options)


def _has_sizes(model: str) -> bool:
    from perfcast.prediction.model import read_model

    return read_model(model).has_sizes


def _is_recommender(model: str) -> bool:
    from perfcast.cli.predict.recommender import is_recommender

    return is_recommender(model)


def _refuse(given: dict[str, Any], why: str) -> None:
    names = [name for name, value in given.items() if value is not None and value is not False]
    if names:
        raise click.UsageError(f"{', '.join(names)}: {why}")


def _write(forecast: PlanForecast, of_run: dict[str, Any], outputs: Outputs) -> None:
    from perfcast.cli.options.run import build_run_request
    from perfcast.cli.predict.plan import write_plan_forecast

    request = build_run_request(forecast.device, **of_run)
    run = None
    if request is not None:
        from perfcast.prediction.run.predict import predict_run

        run = predict_run(forecast, request, forecast.model)
    write_plan_forecast(forecast, run, outputs)


def _predict_one_device(
    model: str,
    device: str,
    outputs: Outputs,
    chakra: str | None,
    *,
    cost_model: str | None,
    framework: str | None,
    weights: str | None,
    **options: Any,
) -> None:
    from perfcast.prediction import predict as forecast_step

    pricing = find_cost_model(cost_model, device)
    forecast = forecast_step(
        model, device, cost_model=pricing, framework=framework, weights=weights, **request_options(**options)
    )
    written = []
    if chakra:
        from perfcast.traces.chakra.astra_sim import write_folder
        from perfcast.traces.chakra.from_graph import chakra_from_forecast

        write_folder(chakra_from_forecast(forecast), chakra)
        written.append(chakra)
    _write_step(forecast, outputs, written)


def _write_step(forecast: Forecast, outputs: Outputs, written: Sequence[str]) -> None:
    from perfcast.report.data.step import data_of
    from perfcast.report.documents.step import document_of
    from perfcast.report.timelines.step import about, events_of
    from perfcast.report.trace_events import trace_events

    write_answer(
        outputs,
        lambda: document_of(forecast),
        lambda: data_of(forecast),
        lambda: trace_events(events_of(forecast), about(forecast)),
        written=written,
    )
