"""``perfcast trace forecast``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from perfcast.cli.output import Outputs, output_options, write_answer
from perfcast.cli.trace.options import limit_option, step_numbers, steps_option

if TYPE_CHECKING:
    from perfcast.core.cluster import Cluster
    from perfcast.traces.events import Trace
    from perfcast.traces.forecast.ratios import Side
    from perfcast.traces.forecast.request import SecondRecording, TraceForecastRequest
    from perfcast.traces.overheads.profile import OverheadProfile


@click.command()
@click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
@click.option("--device", metavar="NAME", help="Another device; see 'perfcast catalog devices'.")
@click.option("--recorded-device", metavar="NAME", help="Where it was recorded, if the file does not say.")
@click.option("--cost-model", help="What prices devices: learned (default), roofline, linear (cpu).")
@click.option("--dtype", metavar="tf32", help="tf32: products of fp32 tensors run in TF32.")
@click.option("--batch-size", type=int, help="Another batch, of one rank; needs --recorded-batch-size.")
@click.option("--recorded-batch-size", type=int, help="First dim of the recorded inputs.")
@click.option("--second", "seconds", multiple=True, metavar="TRACE", help=(
    "The same program recorded with another batch (repeat for every rank), on a processor: each operator "
    "on a line through both; needs --second-batch-size."
))  # fmt: skip
@click.option("--second-batch-size", type=int, help="Of --second.")
@click.option("--cluster", metavar="NAME:N", help="Price collectives on this cluster.")
@click.option("--world-size", type=int, help="Ranks of its collectives; default: as recorded.")
@click.option("--overheads", metavar="FILE", help="Host overheads of another host, from 'trace overheads'.")
@click.option("--what-if", "what_ifs", multiple=True, metavar="CHANGE", help=(
    "speed:NAME=K (operators, kernels K times faster), host=K, communication=K, overlap, graphs; repeatable."
))  # fmt: skip
@steps_option
@limit_option
@output_options(html=True)
def forecast(
    traces: tuple[str, ...],
    device: str | None,
    recorded_device: str | None,
    cost_model: str | None,
    dtype: str | None,
    batch_size: int | None,
    recorded_batch_size: int | None,
    seconds: tuple[str, ...],
    second_batch_size: int | None,
    cluster: str | None,
    world_size: int | None,
    overheads: str | None,
    what_ifs: tuple[str, ...],
    steps: tuple[int, int] | None,
    max_bytes: int,
    outputs: Outputs,
) -> None:
    """Forecast recorded steps elsewhere, or changed.

    \b
    perfcast trace forecast step.json --device h200
    perfcast trace forecast rank*.json --what-if speed:gemm=2 --what-if overlap
    perfcast trace forecast a.json --recorded-batch-size 8 --second b.json --second-batch-size 24 \
        --batch-size 16

    TRACE is a recording of PyTorch's profiler, one for each rank, or an archive of all ranks. Another device
    or batch needs the shapes of operators' arguments: recorded with them (record_shapes=True), or by
    'perfcast trace record', whose NAME.linked.json.gz is read beside NAME.kineto.json.gz.
    """

    from perfcast.traces.forecast.recording_cost import plain_step_seconds
    from perfcast.traces.forecast.request import TraceForecastRequest
    from perfcast.traces.forecast.what_if import parse_what_if
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    if (batch_size is None) != (recorded_batch_size is None):
        raise click.UsageError("--batch-size and --recorded-batch-size belong together")
    if bool(seconds) != (second_batch_size is not None):
        raise click.UsageError("--second and --second-batch-size belong together")
    changes = parse_what_if(what_ifs)
    recorded = read_ranks_with_inputs(traces, max_bytes=max_bytes)
    before, after = _sides(recorded[0], device, recorded_device, cost_model, dtype, batch_size is not None)
    request = TraceForecastRequest(
        before=before,
        after=after,
        batch=(recorded_batch_size, batch_size) if recorded_batch_size and batch_size else None,
        cluster=_find_cluster(cluster),
        world_size=world_size,
        profile=_load_overheads(overheads),
        changes=changes,
        plain_seconds=plain_step_seconds(traces),
        second=_second(seconds, second_batch_size, max_bytes),
        steps=step_numbers(steps),
    )
    _write(recorded, request, outputs)


def _second(paths: tuple[str, ...], batch_size: int | None, max_bytes: int) -> SecondRecording | None:
    if batch_size is None:
        return None
    from perfcast.traces.forecast.recording_cost import plain_step_seconds
    from perfcast.traces.forecast.request import SecondRecording
    from perfcast.traces.kineto.borrowed_inputs import read_ranks_with_inputs

    traces = read_ranks_with_inputs(paths, max_bytes=max_bytes)
    return SecondRecording(traces, batch_size, plain_step_seconds(paths))


def _write(recorded: tuple[Trace, ...], request: TraceForecastRequest, outputs: Outputs) -> None:
    from perfcast.report.data.traces.forecast import data_of
    from perfcast.report.documents.traces.forecast import document_of
    from perfcast.traces.forecast.from_traces import forecast_from_traces

    found = forecast_from_traces(recorded, request)
    write_answer(outputs, lambda: document_of(found), lambda: data_of(found))


def _sides(
    trace: Trace,
    device: str | None,
    recorded_device: str | None,
    cost_model: str | None,
    dtype: str | None,
    has_batch: bool,
) -> tuple[Side | None, Side | None]:
    """What prices the recorded and the wanted device; nothing where neither device nor batch changes."""
    from perfcast.errors import PlanError
    from perfcast.prediction import resolve_device
    from perfcast.traces.forecast.ratios import Side
    from perfcast.verbs.shared.cost_model import choose_cost_model

    if device is None and not has_batch:
        return None, None
    named = recorded_device or _recorded_device(trace)
    if named is None:
        if device is None:
            return None, None
        what = trace.devices[0].name if trace.devices else "a processor"
        raise PlanError(
            f"recorded on {what}, which the catalog does not have; name it with --recorded-device"
        )
    sides = []
    for name in (named, device or named):
        model = choose_cost_model(cost_model, name, None, None)
        sides.append(Side(resolve_device(name), model, dtype or ""))
    return sides[0], sides[1]


def _recorded_device(trace: Trace) -> str | None:
    from perfcast.catalog.devices import find_device_name

    return find_device_name(trace.devices[0].name) if trace.devices else None


def _find_cluster(text: str | None) -> Cluster | None:
    if text is None:
        return None
    from perfcast.prediction.plan.cluster import cluster_by_name

    return cluster_by_name(text, None)


def _load_overheads(path: str | None) -> OverheadProfile | None:
    if path is None:
        return None
    from perfcast.traces.overheads.store import load_overheads

    return load_overheads(path)
