"""``perfcast predict`` of a plan over several devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from perfcast.cli.options.cost_model import choose_cost_model
from perfcast.cli.options.shared import PLAN_DTYPE, attention_kernels
from perfcast.cli.output import Outputs, write_answer
from perfcast.core.plan_choice import choose_plan, implied_devices
from perfcast.core.plan_text import PlanValues

if TYPE_CHECKING:
    from perfcast.core.cluster import Cluster
    from perfcast.core.forecast.plan import PlanForecast
    from perfcast.core.plan import Plan
    from perfcast.core.training import Training
    from perfcast.prediction.run.predict import RunForecast
    from perfcast.prediction.step.priced import PricedStep


def forecast_plan(
    model: str,
    device: str | None,
    cluster: str | None,
    values: PlanValues,
    *,
    cost_model: str | None,
    framework: str | None,
    weights: str | None,
    closed_form: bool,
    stragglers: str | None,
    with_spans: bool,
    chakra: str | None = None,
    **options: Any,
) -> PlanForecast:
    """The forecast that the command line asks for; Chakra traces of it in a folder, if one is named.

    Raises:
        InputError: Contradictions, unknown names, an impossible plan.
        UsageError: Options of a captured model, or a timeline of a closed form.
    """
    from perfcast.prediction.model import read_model
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.prediction.step.predict import forecast_step
    from perfcast.prediction.step.priced import price_request
    from perfcast.simulate.stragglers import parse_slowdowns

    _refuse_what_plans_ignore(options)
    target, notes = _choose_cluster(cluster, device, values, options["devices"])
    known = read_model(model)
    has_sizes = known.has_sizes
    plan, more = choose_plan(
        values, target.num_devices, mode=options["mode"], batch_size=options["batch_size"],
        micro_batch_size=options["micro_batch_size"], is_captured=not has_sizes,
    )  # fmt: skip
    training = None
    if options["mode"] == "train":
        training = _training(plan, framework, has_sizes, options)
        framework = None
    request = PlanRequest(
        model=known,
        cluster=target,
        plan=plan,
        mode=options["mode"],
        training=training,
        dtype=options["dtype"] or PLAN_DTYPE,
        sequence_length=options["sequence_length"],
        cost_model=choose_cost_model(cost_model, target.device, framework, weights),
        method="closed_form" if closed_form else "simulated",
        stragglers=parse_slowdowns(stragglers) if stragglers else None,
        with_spans=with_spans and not closed_form,
        notes=(*notes, *more),
    )
    priced = price_request(request)
    forecast = forecast_step(priced, request)
    if chakra is not None:
        _write_chakra(priced, chakra)
    return forecast


def _write_chakra(priced: PricedStep, folder: str) -> None:
    """All ranks and what ASTRA-sim needs beside them; one rank of each stage where all are too many."""
    from perfcast.traces.chakra.astra_sim import dimensions_of, write_astra_sim, write_folder
    from perfcast.traces.chakra.from_plan import chakra_from_step

    workload, cluster = chakra_from_step(priced, with_waits=False), priced.planned.step.cluster
    if len(workload.traces) == cluster.num_devices:
        write_astra_sim(workload, folder, dimensions_of(cluster))
    else:
        write_folder(workload, folder)
    for note in workload.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"wrote {folder}", err=True)


def _refuse_what_plans_ignore(options: dict[str, Any]) -> None:
    given = {
        "--compile": options["compile"],
        "--optimizer-implementation": options["optimizer_implementation"],
    }
    refused = [name for name, value in given.items() if value]
    if refused:
        raise click.UsageError(f"{', '.join(refused)}: of one device, whose model is captured")
    if options["mode"] in ("prefill", "decode") and options["attention"] == "eager":
        raise click.UsageError(
            f"--attention eager: --mode {options['mode']} under a plan has fused attention"
        )


def _choose_cluster(
    cluster: str | None, device: str | None, values: PlanValues, devices: int
) -> tuple[Cluster, list[str]]:
    """The cluster, and what was chosen for the user."""
    from perfcast.errors import PlanError
    from perfcast.prediction.plan.cluster import cluster_by_name, cluster_of_device

    if devices < 1:
        raise PlanError(f"--devices {devices}: must be at least 1")
    needed = implied_devices(values)
    wanted = devices if devices > 1 else needed if needed > 1 else None
    if cluster is not None:
        counts_itself = ":" in cluster
        return cluster_by_name(cluster, None if counts_itself and devices == 1 else wanted, device), []
    if device is None:
        raise click.UsageError("where does it run? give --cluster NAME:N, or --device NAME with --devices N")
    found = cluster_of_device(device, wanted or 1)
    return found, [f"no --cluster was given: {found.name}, {found.title}"]


def _training(plan: Plan, framework: str | None, has_sizes: bool, options: dict[str, Any]) -> Training:
    from perfcast.core.training import DTYPES, FRAMEWORKS, OPTIMIZERS, Training
    from perfcast.core.words import known_word
    from perfcast.prediction.plan.memory import default_framework

    if framework is None:
        framework = default_framework(plan) if has_sizes else "pytorch"
    return Training(
        dtype=known_word("dtype", options["dtype"] or PLAN_DTYPE, DTYPES),
        optimizer=known_word("optimizer", options["optimizer"], OPTIMIZERS),
        framework=known_word("framework", framework, FRAMEWORKS),
        attention=attention_kernels(options["attention"]),
    )


def write_plan_forecast(forecast: PlanForecast, run: RunForecast | None, outputs: Outputs) -> None:
    """What was asked for of the forecast.

    Args:
        run: The whole run, where one was asked for.
    """
    from perfcast.report.data.plan_step import data_of
    from perfcast.report.documents.plan_step import document_of
    from perfcast.report.timelines.plan_step import about, events_of
    from perfcast.report.trace_events import trace_events

    write_answer(
        outputs,
        lambda: document_of(forecast, run),
        lambda: data_of(forecast, run),
        lambda: trace_events(events_of(forecast), about(forecast)),
    )
