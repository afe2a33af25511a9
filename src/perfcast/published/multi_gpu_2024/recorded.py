"""A recorded step with modelled kernels: every recorded operator priced, its time shared by its kernels.

What the study has no model of (and collectives) keeps its recorded time. FBGEMM's batched lookups, forward
and backward, are priced by the heuristic from the shapes that were recorded: of a lookup in T tables the
offsets have T · bags + 1 entries, and the gradient of its output is bags wide rows of all tables' columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.embedding.lookup import EmbeddingLookup
from perfcast.core.machine.hardware import Device
from perfcast.core.operation import Operation
from perfcast.cost.embedding.heuristic import HeuristicEmbeddingPricer
from perfcast.cost.embedding.model import price_lookups
from perfcast.cost.model import CostModel
from perfcast.published.comparison import print_part
from perfcast.published.multi_gpu_2024.cost import load_lin2024_cost
from perfcast.published.multi_gpu_2024.iteration import KERNEL_FIXED_SECONDS, Iteration, predict_iteration
from perfcast.published.multi_gpu_2024.predictor import NAME
from perfcast.published.nets.store import predictor_folder
from perfcast.traces.events import NONE, OperatorInputs, Trace
from perfcast.traces.forecast.operations import RecordedOperations, lower_for
from perfcast.traces.link.kernels import nest
from perfcast.traces.timeline.program import RankProgram
from perfcast.traces.timeline.ranks import build_ranks

_FORWARD = re.compile(r"fbgemm::(?:split|dense)_embedding_codegen_lookup_(?:(\w+)_)?function")
_BACKWARD = re.compile(r"torch::autograd::CppNode<SplitLookupFunction_(\w+)_Op>")
_DENSE = "Dense"


@dataclass(frozen=True)
class ModelledKernels:
    """Kernels of one rank.

    Attributes:
        seconds: Of each work of its program.
        modelled_share: Of the recorded time of works that are no collectives, the part that a model replaced.
    """

    seconds: tuple[float, ...]
    modelled_share: float


def forecast_recorded(
    traces: Sequence[Trace],
    device: Device,
    cost: CostModel | None = None,
    overheads_of: Sequence[RankProgram] | None = None,
) -> tuple[Iteration, tuple[ModelledKernels, ...]]:
    """A step of recorded ranks with overheads as published and kernels by their models.

    Args:
        device: That was recorded.
        cost: Of kernels; None: what ``perfcast train lin2024`` left in the user's data folder.
        overheads_of: As ``iteration.predict_iteration`` has it.

    Raises:
        InputError: The kernel models are not trained.
        CalibrationError, PlanError: As ``predict_iteration``; a device that the models do not know.
    """
    programs = build_ranks(traces)
    models = cost or load_lin2024_cost(predictor_folder(NAME, 0))
    found = tuple(model_kernels(t, p, models, device) for t, p in zip(traces, programs, strict=True))
    return predict_iteration(programs, overheads_of, [one.seconds for one in found]), found


def model_kernels(trace: Trace, program: RankProgram, cost: CostModel, device: Device) -> ModelledKernels:
    """Modelled times of a rank's works, without the 5 µs that ``predict_iteration`` adds."""
    lookups = lookup_seconds(trace, program, device)
    operations = RecordedOperations(trace, nest(trace.events).parents)
    own = {work.operator: operations.of(work.operator) for work in program.works if work.operator != NONE}
    priced = _priced([o for o in own.values() if o is not None], cost, device)
    launched = Counter(work.operator for work in program.works)
    seconds, modelled, total = [], 0.0, 0.0
    for work in program.works:
        operation = own.get(work.operator)
        looked_up = lookups.get(work.operator)
        price = priced.get(operation) if operation is not None else None
        if work.collective or (looked_up is None and price is None):
            seconds.append(work.seconds - KERNEL_FIXED_SECONDS)
        else:
            # The heuristic of lookups holds what a kernel takes beyond its traffic already.
            fixed = KERNEL_FIXED_SECONDS if looked_up is not None else 0.0
            seconds.append((looked_up or price or 0.0) / launched[work.operator] - fixed)
            modelled += work.seconds
        total += 0.0 if work.collective else work.seconds
    return ModelledKernels(tuple(seconds), modelled / total if total else 0.0)


def _priced(operations: Sequence[Operation], cost: CostModel, device: Device) -> dict[Operation, float]:
    """Operations that a model knows, with their seconds."""
    ordered = list(dict.fromkeys(operations))
    found = cost.estimate(lower_for(ordered, device, "fp32"), device)
    return {
        operation: float(found.seconds[index])
        for index, operation in enumerate(ordered)
        if found.provenance[index] == NAME
    }


def lookup_seconds(trace: Trace, program: RankProgram, device: Device) -> dict[int, float]:
    """Seconds of FBGEMM's lookups by their operators' rows: forward, and backward with its update."""
    rows = list(dict.fromkeys(work.operator for work in program.works if work.operator != NONE))
    widths = _gradient_widths(trace, rows)
    found: dict[int, float] = {}
    lookups: dict[str, EmbeddingLookup] = {}
    for row in rows:
        name = trace.events.name(row)
        forward, backward = _FORWARD.fullmatch(name), _BACKWARD.fullmatch(name)
        inputs = trace.events.inputs_of(row) if forward else None
        kind = (forward.group(1) or _DENSE) if forward else ""
        if forward and inputs is not None and kind in widths:
            lookup = fbgemm_lookup(inputs, *widths[kind])
            if lookup is not None:
                lookups[kind] = lookup
                found[row] = _seconds(lookup, device, kind, "forward")
        elif backward and backward.group(1) in lookups:
            found[row] = _seconds(lookups[backward.group(1)], device, backward.group(1), "backward")
    return found


def _gradient_widths(trace: Trace, rows: Sequence[int]) -> dict[str, tuple[int, int]]:
    """Bags and columns of all tables of the lookup of each optimizer."""
    found = {}
    for row in rows:
        match, inputs = _BACKWARD.fullmatch(trace.events.name(row)), None
        if match:
            inputs = trace.events.inputs_of(row)
        shape = inputs.shapes[0] if inputs is not None and inputs.shapes else ()
        if match and isinstance(shape, tuple) and len(shape) == 2 and all(type(s) is int for s in shape):
            found[match.group(1)] = (int(shape[0]), int(shape[1]))
    return found


def fbgemm_lookup(inputs: OperatorInputs, bags: int, columns: int) -> EmbeddingLookup | None:
    """All tables of one call as one of their mean sizes, each row as likely as any other; or None.

    The bags of all tables are counted together. FBGEMM's arguments hold, in this order, offsets of weights,
    cumulated rows (T + 1), indices and offsets as tensors of 64-bit integers (fbgemm_gpu,
    ``split_embedding_codegen_lookup_invokers``).
    """
    tensors = [
        (shape, type_)
        for shape, type_ in zip(inputs.shapes, inputs.types, strict=False)
        if isinstance(shape, tuple) and len(shape) == 1 and type(shape[0]) is int
    ]
    longs = [int(shape[0]) for shape, type_ in tensors if type_ == "long int"]
    weights = max((int(shape[0]) for shape, type_ in tensors if type_ == "float"), default=0)
    if len(longs) < 4:
        return None
    tables, lookups, offsets = longs[1] - 1, longs[2], longs[3] - 1
    if tables < 1 or offsets != tables * bags or not lookups or columns < tables:
        return None
    dim = max(round(columns / tables), 1)
    return EmbeddingLookup(max(weights // (tables * dim), 1), dim, offsets, lookups / offsets)


def _seconds(lookup: EmbeddingLookup, device: Device, kind: str, phase: str) -> float:
    optimizer = kind if kind in _OPTIMIZERS else "sgd"
    return price_lookups(HeuristicEmbeddingPricer(device, optimizer), [lookup], phase).seconds


_OPTIMIZERS = ("sgd", "adagrad", "rowwise_adagrad")


if __name__ == "__main__":
    print_part("multi_gpu_2024.recorded", "multi_gpu_2024")
