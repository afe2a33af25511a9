"""Memory of a rank that is neither state nor activation: workspaces, inputs, gathered weights, exchanges."""

from __future__ import annotations

from perfcast.core.forecast.footprint import Term
from perfcast.core.plan import Plan
from perfcast.core.tensor import Category
from perfcast.core.training import Training
from perfcast.core.weights import StageWeights, count_elements
from perfcast.memory.footprint.activations import Layout
from perfcast.memory.footprint.habits import Habits

_FSDP = "Zhao et al.: PyTorch FSDP, VLDB 2023, section 3; PyTorch: fully_shard, _fsdp_collectives.py"


def workspace_terms(each: int, habits: Habits) -> tuple[Term, ...]:
    """Workspaces of the product libraries, of ``each`` bytes; 0 where no device is named."""
    count = 2 if habits.has_second_workspace else 1
    return (
        Term(
            "workspaces of products", Category.BUFFER, count * each, f"{count} · {each:,}",
            "PyTorch: CUDABlas; Transformer Engine: module/base.py, get_cublas_workspace_size_bytes",
        ),
        Term(
            "other buffers", Category.BUFFER, round(habits.other_bytes), "found by measuring", habits.source
        ),
    )  # fmt: skip


def input_term(layout: Layout, training: Training) -> Term:
    """Tokens, labels and positions of 8 bytes, the loss's weights of 4, and a mask of pairs without flash."""
    masks = layout.tokens * layout.sequence_length if training.attention == "math" else 0
    return Term(
        "inputs", Category.INPUT, 28 * layout.tokens + masks, "28 bytes · s·b (+ s²·b for a mask)",
        "Megatron-LM: pretrain_gpt.py, get_batch",
    )  # fmt: skip


def gathered_terms(weights: StageWeights, plan: Plan, habits: Habits) -> tuple[Term, ...]:
    """ZeRO 3: weights gathered for use, and the unsharded gradient of one layer on its way to its shards.

    The embedding and the head are gathered from their forward to their backward. Layers come and go with
    resharding: the current one, those gathered ahead, and one gather's landing buffer; without it all stay.
    """
    if plan.zero_stage < 3:
        return ()
    layers = [
        (weights.num_dense_layers, count_elements(weights.dense_layer)),
        (weights.num_expert_layers, count_elements(weights.expert_layer)),
    ]
    largest = _largest_layer(weights)
    whole = sum(count * elements for count, elements in layers)
    outside = count_elements(weights.embedding) + count_elements(weights.head)
    each = habits.compute_weight_bytes
    if plan.reshard_after_forward:
        held = min(whole, largest * (1 + plan.num_prefetched)) + largest
        formula = f"{each} bytes · ({held:,} of layers + {outside:,})"
    else:
        held = whole + largest
        formula = f"{each} bytes · ({whole:,} + {largest:,}) + {each} · {outside:,}"
    return (
        Term("gathered weights", Category.TEMPORARY, each * (held + outside), formula, _FSDP),
        Term(
            "gradient before it is sharded", Category.TEMPORARY, 2 * each * largest,
            f"{each} bytes · {largest:,}, and the copy that is sent", _FSDP,
        ),
    )  # fmt: skip


def _largest_layer(weights: StageWeights) -> int:
    """Parameters of the largest kind of layer that the stage has; 0 without layers."""
    dense = count_elements(weights.dense_layer) if weights.num_dense_layers else 0
    expert = count_elements(weights.expert_layer) if weights.num_expert_layers else 0
    return max(dense, expert)


def offload_terms(weights: StageWeights, plan: Plan, habits: Habits) -> tuple[Term, ...]:
    """Parameters on the host: on the device are embedding and head, a layer in use and one on its way.

    With ZeRO 3 only shards come from the host; what is gathered from them is counted there.
    """
    if plan.offload != "parameters" or plan.zero_stage == 3:
        return ()
    largest = _largest_layer(weights)
    outside = count_elements(weights.embedding) + count_elements(weights.head)
    each = habits.compute_weight_bytes
    return (
        Term(
            "weights on loan from the host", Category.PARAMETER, each * (2 * largest + outside),
            f"{each} bytes · (2 · {largest:,} + {outside:,})",
            "Rajbhandari et al.: ZeRO-Infinity, SC 2021, section 5",
        ),
        Term(
            "gradients on their way to the host", Category.GRADIENT, each * (2 * largest + outside),
            f"{each} bytes · (2 · {largest:,} + {outside:,})",
            "Rajbhandari et al.: ZeRO-Infinity, SC 2021, section 5",
        ),
    )  # fmt: skip


def exchange_term(layout: Layout, plan: Plan, hidden_size: int) -> Term:
    """Between stages: an activation received and its gradient sent, twice where both overlap with work."""
    count = 2 if plan.pipeline_parallel > 1 else 0
    return Term(
        "exchange between stages", Category.TEMPORARY, count * layout.norm_rows(hidden_size),
        f"{count} · 2·s·b·h", "Narayanan et al.: Megatron-LM, SC 2021, section 3.2",
    )  # fmt: skip
