"""Memory of a rank that is neither state nor activation: workspaces, inputs, gathers, communication."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from perfcast.core.arrays import Flags
from perfcast.core.tensor import Category
from perfcast.frameworks.profile import MemoryProfile
from perfcast.memory_use.footprint.layer_figures import LayerFigures
from perfcast.memory_use.footprint.ranks import Ranks, chunks_of_ranks
from perfcast.memory_use.footprint.terms import TermColumn
from perfcast.memory_use.footprint.weight_figures import PartFigures

_FSDP = "Zhao et al.: PyTorch FSDP, VLDB 2023, section 3; PyTorch: fully_shard, _fsdp_collectives.py"


def workspace_terms(ranks: Ranks, each: int, profile: MemoryProfile) -> Iterator[TermColumn]:
    """Workspaces of the product libraries, of ``each`` bytes; 0 where no device is named."""
    count, everywhere = 2 if profile.has_second_workspace else 1, np.ones(len(ranks.plans))
    yield TermColumn(
        "workspaces of products",
        Category.BUFFER,
        count * each * everywhere,
        f"{count} · {each:,}",
        "PyTorch: CUDABlas; Transformer Engine: module/base.py, get_cublas_workspace_size_bytes",
    )
    other = round(profile.other_bytes) * everywhere
    yield TermColumn("other buffers", Category.BUFFER, other, "found by measuring", profile.source)


def input_term(figures: LayerFigures) -> TermColumn:
    """Tokens, labels and positions, the loss's weights, and a mask of pairs without flash."""
    formula, source = "28 bytes · s·b (+ s²·b for a mask)", "Megatron-LM: pretrain_gpt.py, get_batch"
    return TermColumn("inputs", Category.INPUT, figures.inputs, formula, source)


def gathered_terms(ranks: Ranks, profile: MemoryProfile) -> Iterator[TermColumn]:
    """ZeRO 3: weights gathered for use, and the unsharded gradient of one layer on its way to its shards.

    The embedding and the head are gathered from their forward to their backward, or the head alone. Layers
    come and go with resharding: the current one, those gathered ahead, and one gather's landing buffer;
    without it all stay.
    """
    gathers = ranks.plans.zero_stage >= 3
    if not gathers.any():
        return
    travelling, trained = ranks.weights.travelling, ranks.weights.trained
    largest, ends = ranks.largest_layer(travelling), ranks.outside(travelling)
    whole = sum(ranks.amounts(travelling)) - ends
    reshards = ranks.plans.reshard_after_forward > 0
    outside, sent = ends, ranks.largest_layer(trained)
    if profile.shards_ends_apart:
        heads = ranks.heads(trained)
        outside = np.where(reshards, ranks.heads(travelling), ends)
        sent = np.maximum(sent, np.maximum(heads, ranks.outside(trained) - heads))
    at_once = np.where(reshards, np.minimum(whole, largest * (1 + ranks.plans.num_prefetched)), whole)
    each = profile.compute_weight_bytes

    def formula(row: int) -> str:
        if reshards[row]:
            return f"{each} bytes · ({at_once[row] + largest[row]:,.0f} of layers + {outside[row]:,.0f})"
        return f"{each} bytes · ({whole[row]:,.0f} + {largest[row]:,.0f}) + {each} · {outside[row]:,.0f}"

    yield TermColumn(
        "gathered weights",
        Category.TEMPORARY,
        np.where(gathers, each * (at_once + largest + outside), 0.0),
        formula,
        _FSDP,
    )
    yield TermColumn(
        "gradient before it is sharded",
        Category.TEMPORARY,
        np.where(gathers, (each + profile.sent_gradient_bytes) * sent, 0.0),
        lambda row: f"{each} bytes · {sent[row]:,.0f}, and {profile.sent_gradient_bytes:g} that are sent",
        _FSDP,
    )


def offload_terms(ranks: Ranks, profile: MemoryProfile) -> Iterator[TermColumn]:
    """Parameters on the host: on the device are embedding and head, a layer in use and one on its way.

    With ZeRO 3 only shards come from the host; what is gathered from them is counted there.
    """
    lends = ranks.plans.has_word("offload", "parameters") & (ranks.plans.zero_stage < 3)
    if not lends.any():
        return
    for name, category, parts in (
        ("weights on loan from the host", Category.PARAMETER, ranks.weights.travelling),
        ("gradients on their way to the host", Category.GRADIENT, ranks.weights.trained),
    ):
        yield _lent_term(name, category, lends, ranks, parts, profile)


def _lent_term(
    name: str, category: str, lends: Flags, ranks: Ranks, parts: PartFigures, profile: MemoryProfile
) -> TermColumn:
    each, largest, outside = profile.compute_weight_bytes, ranks.largest_layer(parts), ranks.outside(parts)
    return TermColumn(
        name,
        category,
        np.where(lends, each * (2 * largest + outside), 0.0),
        lambda row: f"{each} bytes · (2 · {largest[row]:,.0f} + {outside[row]:,.0f})",
        "Rajbhandari et al.: ZeRO-Infinity, SC 2021, section 5",
    )


def widened_term(ranks: Ranks, profile: MemoryProfile) -> TermColumn:
    """Weights in four bits as a product reads them: the largest matrix, while it is multiplied."""
    each, widest = profile.compute_weight_bytes, ranks.weights.widest
    return TermColumn(
        "a matrix out of four bits",
        Category.TEMPORARY,
        each * widest,
        lambda row: f"{each} bytes · {widest[row]:,.0f}",
        "bitsandbytes: autograd/_functions.py, MatMul4Bit",
    )


def communication_term(ranks: Ranks, figures: LayerFigures, profile: MemoryProfile) -> TermColumn:
    """Between stages: an activation received and its gradient sent, twice where both overlap with work.

    PyTorch's stages have a buffer for each micro-batch, of activations but in the model's first part and of
    gradients but in its last.
    """
    plans, count, formula = ranks.plans, np.full(len(ranks.plans), 2.0), "2 · 2·s·b·h"
    source = "Narayanan et al.: Megatron-LM, SC 2021, section 3.2"
    if profile.receives_all_micro_batches:
        ends = ranks.has_embedding.astype(np.float64) + ranks.has_head
        count = plans.num_micro_batches * (2 * chunks_of_ranks(plans) - ends)
        formula = "2·s·b·h of every micro-batch, of activations and of gradients"
        source = "PyTorch: distributed/pipelining/stage.py, args_recv_info and grad_recv_info"
    num_bytes = np.where(plans.pipeline_parallel > 1, count * figures.norm_rows, 0.0)
    return TermColumn("communication between stages", Category.TEMPORARY, num_bytes, formula, source)


def issued_ahead_term(ranks: Ranks, figures: LayerFigures, profile: MemoryProfile) -> TermColumn:
    """Unsharded tensors of asynchronous collectives, which stay allocated until the device has caught up."""
    plans, count = ranks.plans, profile.tensors_issued_ahead
    applies = (plans.tensor_parallel > 1) & (plans.sequence_parallel > 0) & (plans.pipeline_parallel == 1)
    return TermColumn(
        "tensors of collectives issued ahead",
        Category.TEMPORARY,
        np.where(applies, np.rint(count * figures.rows), 0.0),
        f"{count:g} · 2·s·b·h",
        "PyTorch: ProcessGroupNCCL, record_stream of the tensors of asynchronous collectives",
    )
