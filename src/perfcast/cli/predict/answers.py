"""What ``perfcast predict`` answers each request with: the terminal, and the files that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, write_answer

if TYPE_CHECKING:
    from perfcast.core.forecast.plan import PlanForecast
    from perfcast.prediction.request.one_device import OneDeviceRequest
    from perfcast.prediction.request.parallel_program import ParallelProgramRequest
    from perfcast.prediction.request.plan import PlanRequest
    from perfcast.prediction.request.recommender import RecommenderRequest
    from perfcast.prediction.request.run import RunRequest
    from perfcast.prediction.run.predict import RunForecast
    from perfcast.prediction.step.priced import PricedStep


def answer_one_device(request: OneDeviceRequest, outputs: Outputs, chakra: str | None) -> None:
    """The step, and its Chakra trace in a folder, if one is named."""
    from perfcast.prediction import predict_one_device
    from perfcast.report.data.step import data_of
    from perfcast.report.documents.step import document_of
    from perfcast.report.timelines.step import about, events_of
    from perfcast.report.trace_events import trace_events

    forecast = predict_one_device(request)
    if chakra:
        from perfcast.traces.chakra.astra_sim import write_folder
        from perfcast.traces.chakra.from_graph import chakra_from_forecast

        write_folder(chakra_from_forecast(forecast), chakra)
    write_answer(
        outputs,
        lambda: document_of(forecast),
        lambda: data_of(forecast),
        lambda: trace_events(events_of(forecast), about(forecast)),
        fits=(forecast.fit,),
        written=[chakra] if chakra else [],
    )


def answer_plan(
    request: PlanRequest, run_request: RunRequest | None, outputs: Outputs, chakra: str | None
) -> None:
    """The step, the whole run if one is asked for, and Chakra traces in a folder, if one is named."""
    from perfcast.prediction.step.predict import forecast_step
    from perfcast.prediction.step.priced import price_request

    priced = price_request(request)
    forecast = forecast_step(priced, request)
    if chakra is not None:
        _write_chakra(priced, chakra)
    run = None
    if run_request is not None:
        from perfcast.prediction.run.predict import predict_run

        run = predict_run(forecast, run_request, request.model, priced.planned.step.device)
    _write_step(forecast, run, outputs)


def answer_parallel_program(request: ParallelProgramRequest, outputs: Outputs) -> None:
    """The step of a program that is parallel itself."""
    from perfcast.prediction.parallel_program.predict import forecast_parallel_program

    _write_step(forecast_parallel_program(request), None, outputs)


def answer_recommender(request: RecommenderRequest, outputs: Outputs) -> None:
    """The step of a recommendation model whose tables are spread over devices."""
    from perfcast.prediction.recommender.predict import forecast_recommender
    from perfcast.report.data.recommender import data_of
    from perfcast.report.documents.recommender import document_of
    from perfcast.report.timelines.recommender import about, events_of
    from perfcast.report.trace_events import trace_events

    forecast = forecast_recommender(request)
    write_answer(
        outputs,
        lambda: document_of(forecast),
        lambda: data_of(forecast),
        lambda: trace_events(events_of(forecast), about(forecast)),
        fits=(forecast.fit,),
    )


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


def _write_step(forecast: PlanForecast, run: RunForecast | None, outputs: Outputs) -> None:
    from perfcast.report.data.plan_step import data_of
    from perfcast.report.documents.plan_step import document_of
    from perfcast.report.timelines.plan_step import about, events_of
    from perfcast.report.trace_events import trace_events

    write_answer(
        outputs,
        lambda: document_of(forecast, run),
        lambda: data_of(forecast, run),
        lambda: trace_events(events_of(forecast), about(forecast)),
        fits=(forecast.fit,),
    )
