"""A step of inference under a plan: prefill of whole prompts, or one token for each sequence.

A tensor-parallel rank has its heads and its part of the MLP; partial sums meet in an all-reduce behind
attention and MLP (Shoeybi et al.: Megatron-LM, 2019; Pope et al.: Efficiently Scaling Transformer Inference,
MLSys 2023). Where experts are spread within the tensor-parallel group every rank has all tokens, computes
what its experts make of them, and the same all-reduce adds up; where the experts' group spans data-parallel
ranks, rows go to their experts and back by all-to-all (DeepSeek-AI: DeepSeek-V3, 2024, section 3.4).
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.collective import collective_operation
from perfcast.core.operation import Operation
from perfcast.core.placement import next_stage
from perfcast.core.plan import Plan
from perfcast.core.transformer import Transformer
from perfcast.core.weights import check_degrees, split_layers
from perfcast.core.work import Calls, Layer, LayerRun, StageWork, StepWork
from perfcast.errors import ModelError, PlanError
from perfcast.workload.blocks.experts.routing import routing_assumptions
from perfcast.workload.blocks.layer import serving as serving_layers
from perfcast.workload.blocks.serving.kernels import precision_of
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.step.flops import forward_flops


def build_serving_work(
    model: Transformer,
    plan: Plan,
    dtype: str,
    sequence_length: int,
    *,
    is_decode: bool,
    batch_size: int | None = None,
    cache_dtype: str | None = None,
    replays_graph: bool = True,
) -> StepWork:
    """The work of a forward pass.

    Args:
        dtype: Format of the layers' weights and products (``core.formats.FORMATS``).
        sequence_length: Tokens of each prompt, or of the cache that one new token attends to.
        batch_size: Sequences of one micro-batch on one replica; None takes ``plan.micro_batch_size``.
            ``plan.num_micro_batches`` are under way in the pipeline at once.
        cache_dtype: Format of keys and values; None: 16 bits.
        replays_graph: Whether decoding replays a CUDA graph, so that the host issues no kernels.

    Raises:
        PlanError: A plan that cannot cut the model, or one that shards what inference does not.
        ModelError: Decoding with a model that sees the whole sequence at once.
        UnknownNameError: Not a format.
    """
    check_degrees(model, plan)
    _check_plan(plan)
    if is_decode and not model.is_causal:
        raise ModelError("a model whose tokens see what follows them is not decoded token by token")
    if sequence_length < 1 or (batch_size is not None and batch_size < 1):
        raise PlanError(f"{batch_size} sequences of {sequence_length} tokens: both must be at least 1")
    setting = Serving(
        model, plan, precision_of(dtype, cache_dtype), batch_size or plan.micro_batch_size, sequence_length,
        is_decode, is_decode and replays_graph,
    )  # fmt: skip
    layers = [
        Layer("embedding", serving_layers.embedding(setting)),
        Layer("head", serving_layers.head(setting)),
    ]
    kinds = _kinds(model)
    layers += [
        Layer(name, serving_layers.layer(setting, has_experts=has_experts, window=window))
        for name, has_experts, window, _ in kinds
    ]
    sequences = setting.batch_size * plan.num_micro_batches * plan.data_parallel
    num_tokens = sequences * (1 if is_decode else sequence_length)
    return StepWork(
        plan=plan,
        layers=tuple(_without_launches(layer) if setting.replays_graph else layer for layer in layers),
        stages=_stages(model, plan, [count for *_, count in kinds]),
        boundary=_boundary(setting),
        num_tokens=num_tokens,
        flops=serving_flops(model, sequences, sequence_length, is_decode=is_decode),
        assumptions=_assumptions(setting),
    )


def _check_plan(plan: Plan) -> None:
    """What only a training does."""
    for key, value, plain in (
        ("zero", plan.zero_stage, 0),
        ("vp", plan.virtual_stages_per_rank, 1),
        ("tp_inputs", plan.tensor_parallel_inputs, 1),
    ):
        if value != plain:
            raise PlanError(f"{key}={value}: inference has {key}={plain} only")


Kind = tuple[str, bool, int, int]


def _kinds(model: Transformer) -> list[Kind]:
    """Name, whether it has experts, its window, and how many, of each kind of layer in the model's order."""
    dense = model.num_layers - model.num_expert_layers
    found: list[Kind] = []
    for name, count, has_experts in (
        ("layer", dense, False),
        ("expert layer", model.num_expert_layers, True),
    ):
        windowed = round(count * model.num_window_layers / model.num_layers)
        if count - windowed:
            found.append((name, has_experts, 0, count - windowed))
        if windowed:
            found.append((f"{name} with a window", has_experts, model.sliding_window, windowed))
    return found


def _stages(model: Transformer, plan: Plan, counts: list[int]) -> tuple[StageWork, ...]:
    """Embedding first, head last, layers dealt out in order; a stage runs equal layers in a row."""
    split = plan.stage_layers or split_layers(model.num_layers, plan.pipeline_parallel)
    if len(split) != plan.pipeline_parallel or sum(split) != model.num_layers:
        raise PlanError(
            f"stages of {' + '.join(map(str, split))} = {sum(split)} layers for pp={plan.pipeline_parallel} "
            f"stages of a model of {model.num_layers}"
        )
    stages, first = [], 0
    for stage, count in enumerate(split):
        runs = [LayerRun(0, 1)] if stage == 0 else []
        start = 0
        for kind, many in enumerate(counts):
            here = min(first + count, start + many) - max(first, start)
            if here > 0:
                runs.append(LayerRun(2 + kind, here))
            start += many
        if stage == plan.pipeline_parallel - 1:
            runs.append(LayerRun(1, 1))
        stages.append(StageWork((tuple(runs),)))
        first += count
    return tuple(stages)


def _without_launches(layer: Layer) -> Layer:
    calls: Calls = tuple(replace(call, num_launches=0) for call in layer.forward)
    return replace(layer, forward=calls)


def _boundary(setting: Serving) -> Operation | None:
    """Activations of a micro-batch, whole on every tensor-parallel rank."""
    plan, element = setting.plan, setting.precision.element
    if plan.pipeline_parallel == 1:
        return None
    message_bytes = element.bytes_of(setting.tokens * setting.model.hidden_size)
    return collective_operation(
        "send", message_bytes, next_stage(plan), element, num_groups=plan.world_size // plan.pipeline_parallel
    )


def serving_flops(model: Transformer, sequences: int, sequence_length: int, *, is_decode: bool) -> int:
    """Flops of a forward of all sequences; the head sees one token of each."""
    num_new = 1 if is_decode else sequence_length
    return sequences * forward_flops(model, num_new, sequence_length, 1)


def _assumptions(setting: Serving) -> tuple[str, ...]:
    said = ["logits of the last token only; the next token is drawn from their softmax"]
    if setting.replays_graph:
        said.append("decoding replays a CUDA graph: the host issues no kernels")
    return (*said, *routing_assumptions(setting.model, setting.plan))
