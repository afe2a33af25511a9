"""What one engine of a serving program holds: weights, one step, and the cache that the rest becomes.

A program does not ask how long its sequences will be: it takes a fraction of the device, sees what weights
and its largest step need, and deals out the rest as blocks for keys and values. Which fraction of what, its
profile says (``frameworks.serving_memory``); what a rank holds is that of ``serving``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from perfcast.core.arrays import Floats, Integers
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.plan import Plan
from perfcast.core.plans.table import to_table
from perfcast.core.precision import Precision
from perfcast.frameworks.serving_memory import ServingMemory
from perfcast.memory_use.allocator.context import bytes_beside_allocator
from perfcast.memory_use.footprint.ranks import ranks_of_stages
from perfcast.memory_use.footprint.serving import (
    ServingSetting,
    cache_term,
    layer_term,
    logit_term,
    weight_term,
)
from perfcast.memory_use.footprint.setting import workspace_bytes
from perfcast.memory_use.footprint.stage_layers import deal_out_layers
from perfcast.memory_use.footprint.weight_figures import weight_figures


@dataclass(frozen=True, eq=False, slots=True)
class EngineMemory:
    """What a rank of each stage of one replica needs; columns of shape (stages,).

    Attributes:
        weight_bytes: Held all the time.
        token_bytes: Of keys and values of one token, where sequences are as long as was asked.
        step_bytes_per_token: Of the widest part of a layer, while a step runs.
        logit_bytes: Of the logits of one sequence.
        beside_bytes: Of the driver, communicators and workspaces of libraries.
        capacity_bytes: Of the device.
        num_ranks: Of the replica.
    """

    weight_bytes: Floats
    token_bytes: Floats
    step_bytes_per_token: Floats
    logit_bytes: Floats
    beside_bytes: float
    capacity_bytes: int
    num_ranks: int

    def step_bytes(self, max_step_tokens: Integers, max_sequences: Integers) -> Floats:
        """The largest step's activations and logits, shape (n, stages)."""
        tokens = np.asarray(max_step_tokens, dtype=np.float64)[:, None]
        positions = np.minimum(np.asarray(max_sequences, dtype=np.float64)[:, None], tokens)
        found: Floats = tokens * self.step_bytes_per_token + positions * self.logit_bytes
        return found

    def cache_bytes(
        self,
        memory: ServingMemory,
        fraction: Floats,
        max_step_tokens: Integers,
        max_sequences: Integers,
    ) -> Floats:
        """What is left for keys and values, shape (n, stages); below zero where weights alone do not fit.

        Args:
            fraction: Of the device's memory, shape (n,).
            max_step_tokens: Shape (n,).
            max_sequences: Whose next words are chosen at once, shape (n,).
        """
        step = self.step_bytes(max_step_tokens, max_sequences)
        part = np.asarray(fraction, dtype=np.float64)[:, None]
        whole = memory.reported * self.capacity_bytes
        if memory.fraction_of == "free":
            return np.asarray(part * (whole - self.beside_bytes - self.weight_bytes - step))
        if memory.fraction_of == "static":
            return np.asarray(part * (whole - self.beside_bytes) - self.weight_bytes)
        return np.asarray(part * whole - self._beside(memory) - self.weight_bytes - step)

    def kv_tokens(
        self,
        memory: ServingMemory,
        fraction: Floats,
        max_step_tokens: Integers,
        max_sequences: Integers,
    ) -> Integers:
        """Tokens whose keys and values an engine holds, shape (n,): those of its fullest rank; 0 for none."""
        left = self.cache_bytes(memory, fraction, max_step_tokens, max_sequences)
        each = np.maximum(self.token_bytes, 1e-9)
        tokens = np.floor(np.maximum(left, 0.0) / each).min(axis=1)
        return np.asarray(tokens, dtype=np.int64)

    def _beside(self, memory: ServingMemory) -> float:
        """Outside of what weights, steps and cache take, as the program counts it."""
        return self.beside_bytes + (memory.several_ranks if self.num_ranks > 1 else 0.0)

    def taken_bytes(self, memory: ServingMemory, cache_bytes: Floats, step_bytes: Floats) -> Integers:
        """What the fullest device holds with such a cache, shape (n,)."""
        held = self.weight_bytes + self._beside(memory) + np.maximum(cache_bytes, 0.0) + step_bytes
        return np.asarray(held.max(axis=1), dtype=np.int64)


def engine_memory(
    model: Transformer,
    plan: Plan,
    precision: Precision,
    sequence_length: int,
    device: Device,
) -> EngineMemory:
    """What the ranks of one replica need; of many deployments, once for each different plan.

    Args:
        plan: Of one replica; its attention data-parallel ranks (``data_parallel``) are alike.
        sequence_length: Tokens that a sequence holds on average: layers with a window keep no more than it
            has, and state that does not grow is divided by it.

    Raises:
        PlanError: A plan that cannot cut the model.
    """
    alone = replace(plan, micro_batch_size=1, num_micro_batches=1)
    setting = ServingSetting(model, precision, sequence_length, is_decode=True)
    stages, table = np.arange(plan.pipeline_parallel), to_table([alone])
    rows = np.zeros_like(stages)
    layers = deal_out_layers(model, table, balances_head=False).take(rows)
    weights = weight_figures(model, table).take(rows)
    ranks = ranks_of_stages(model, table.take(rows), weights, layers, stages)
    one = np.ones(len(stages))
    beside = bytes_beside_allocator(device, table.num_axes)[0] + workspace_bytes(device)
    cached = cache_term(setting, alone, ranks).num_bytes / sequence_length
    step = np.asarray(layer_term(setting, alone, one).num_bytes, dtype=np.float64)
    return EngineMemory(
        weight_bytes=np.asarray(weight_term(setting, alone, ranks).num_bytes, dtype=np.float64),
        token_bytes=np.asarray(cached, dtype=np.float64),
        step_bytes_per_token=np.maximum(step, setting.outer_bytes * expert_rows_width(model, plan)),
        logit_bytes=np.asarray(
            logit_term(setting, alone, np.where(ranks.has_head, 1.0, 0.0)).num_bytes, dtype=np.float64
        ),
        beside_bytes=float(beside),
        capacity_bytes=device.memory_bytes,
        num_ranks=plan.world_size,
    )


def expert_rows_width(model: Transformer, plan: Plan) -> float:
    """Elements that a rank keeps of a token while experts run: a row for each expert that it goes to.

    Of each such row its output, as wide as the residual (or gate and up, where these are wider), and what
    goes into the second product (vLLM: fused_moe.py, intermediate_cache13 and intermediate_cache2; SGLang has
    the same kernel), beside the residual and the normalised input. 0 of a model without experts.
    """
    experts = model.experts
    if experts is None:
        return 0.0
    rows = experts.experts_per_token * plan.data_parallel / plan.expert_parallel
    inner = experts.ffn_hidden_size / plan.tensor_parallel_of_experts
    gates = 2 if model.is_gated else 1
    return 2 * model.hidden_size + rows * (max(model.hidden_size, gates * inner) + inner)
