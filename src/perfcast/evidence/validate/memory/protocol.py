"""What the memory suite states about itself, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: Of each predictor what was fitted on what, and which rows were looked at while it was built.
FITTED_ON: Mapping[str, str] = {
    "footprint": "closed form; the sources are beside the terms. Fitted, on the lines whose CRC-32 of table "
    "and line number is even: one constant of megatron, six of nanotron, and the intervals (those of "
    "megatron only on lines that say which attention ran). Looked at while building: all lines of simumax "
    "and bloom, half of megatron-lm and of usp, and of the other half of usp a list of peaks by plan",
}

WORDS: Mapping[str, str] = {
    "forecast": "from the configuration of each line alone; what a table leaves out (vocabulary, "
    "recomputation, sequence parallelism, optimizer) is what the source's own public scripts do, and each "
    "row states it in 'assumptions'. Where a megatron-lm line does not say whether attention was fused "
    "(equal tests differ by up to twice between containers), the interval holds both",
    "measured": "simumax: largest over ranks of what PyTorch's allocator counted, allocated and reserved, in "
    "GiB. usp: rank 0, the first pipeline stage, in GiB. megatron-lm: the last rank, the last pipeline "
    "stage, in bytes; 'allocated_steady' is what is held after a step. bloom: nvidia-smi on the nodes that "
    "need most, so the allocator's reserve and the context; a GB is taken as 1000 MiB. galvatron: first or "
    "last rank, in MiB, by part",
    "outcome": "a run is called fitting if the reserve and the context of the stage that needs most are at "
    "most the device's capacity. Runs with a measured peak fitted. Failures do not tell crashes from a full "
    "memory; a failure contradicted by a run that fitted with the same model, no more sharding in any "
    "respect and micro-batches at least as large is listed with 'contradicted_by' and left out of the "
    "summary's share of failures, beside which stands the share with them",
    "duplicates": "a measurement that two tables hold is listed twice, with 'duplicate_of', and counted once",
}


def describe_memory(predictors: Sequence[str], sampling: str) -> dict[str, object]:
    """The protocol of a run of the suite."""
    return {
        **WORDS,
        "fitted_on": {name: FITTED_ON.get(name, "given by the caller") for name in predictors},
        "sampling": sampling,
    }
