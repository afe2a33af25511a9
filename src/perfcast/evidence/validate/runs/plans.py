"""Degrees and batches of measured runs, from a table's columns."""

from __future__ import annotations

from perfcast.core.plan import Plan
from perfcast.evidence.validate.runs.lines import Line, UnreadableError


def read_degrees(
    line: Line, *, num_micro_batches: int | None = None, virtual_stages_per_rank: int | None = None
) -> Plan:
    """The plan that a line's degrees and batches say; what shards, recomputes or overlaps is not read.

    Args:
        num_micro_batches: By default as many as the global batch holds.
        virtual_stages_per_rank: The line's by default.

    Raises:
        UnreadableError: A column is empty, or the degrees do not multiply to the number of devices.
    """
    tensor, pipeline, context = line.whole("tp"), line.whole("pp"), line.whole("cp", 1)
    data, micro = line.whole("dp"), line.whole("micro_batch")
    chunks = line.whole("vpp", 1) if virtual_stages_per_rank is None else virtual_stages_per_rank
    if tensor * pipeline * context * data != line.whole("num_gpus"):
        raise UnreadableError("impossible value")
    if num_micro_batches is None:
        num_micro_batches = max(1, line.whole("global_batch") // (micro * data))
    return Plan(
        data_parallel=data,
        tensor_parallel=tensor,
        pipeline_parallel=pipeline,
        context_parallel=context,
        virtual_stages_per_rank=chunks,
        micro_batch_size=micro,
        num_micro_batches=num_micro_batches,
        schedule="interleaved" if chunks > 1 else "1f1b",
    )
