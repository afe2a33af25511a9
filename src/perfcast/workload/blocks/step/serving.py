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
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import check_degrees
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import next_stage
from perfcast.core.precision import Precision
from perfcast.core.work import Layer, StageWork, StepWork
from perfcast.errors import ModelError, PlanError
from perfcast.frameworks.load import load_inference_profiles
from perfcast.frameworks.precision import PLAIN
from perfcast.frameworks.profile import InferenceProfile
from perfcast.workload.blocks.ends.training import EMBEDDING
from perfcast.workload.blocks.experts.routing import dispatch_assumptions, kept_share, routing_assumptions
from perfcast.workload.blocks.experts.serving import dispatch_of, sends_tokens
from perfcast.workload.blocks.layer import serving as serving_layers
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.step.flops import forward_flops
from perfcast.workload.blocks.step.stages import LayerKey, ModelPart, runs_of, split_model


def build_serving_work(
    model: Transformer,
    plan: Plan,
    precision: Precision,
    sequence_length: int,
    *,
    is_decode: bool,
    batch_size: int | None = None,
    profile: InferenceProfile | None = None,
    replays_graph: bool = True,
) -> StepWork:
    """The work of a forward pass.

    Args:
        precision: Of weights, products and cache.
        sequence_length: Tokens of each prompt, or of the cache that one new token attends to.
        batch_size: Sequences of one micro-batch on one replica; None takes ``plan.micro_batch_size``.
            ``plan.num_micro_batches`` are under way in the pipeline at once.
        profile: Of the framework whose kernels run; None: of plain PyTorch's.
        replays_graph: Whether decoding replays a CUDA graph, so that the host issues no kernels.

    Raises:
        PlanError: A plan that cannot cut the model, or one that shards what inference does not.
        ModelError: Decoding with a model that sees the whole sequence at once.
    """
    check_degrees(model, plan)
    check_serving_plan(plan)
    if is_decode and not model.is_causal:
        raise ModelError("a model whose tokens see what follows them is not decoded token by token")
    if sequence_length < 1 or (batch_size is not None and batch_size < 1):
        raise PlanError(f"{batch_size} sequences of {sequence_length} tokens: both must be at least 1")
    setting = Serving(
        model, plan, precision, batch_size or plan.micro_batch_size, sequence_length,
        is_decode, is_decode and replays_graph, profile or load_inference_profiles()[PLAIN],
    )  # fmt: skip
    parts = split_serving_model(model, plan)
    built = {key: serving_layer(setting, key) for part in parts for key, _ in part.contents()}
    order = {key: place for place, key in enumerate(built)}
    sequences = setting.batch_size * plan.num_micro_batches * plan.data_parallel
    num_tokens = sequences * (1 if is_decode else sequence_length)
    return StepWork(
        plan=plan,
        layers=tuple(built.values()),
        stages=tuple(StageWork((runs_of(part, order),)) for part in parts),
        boundary=boundary_of(setting),
        num_tokens=num_tokens,
        flops=serving_flops(
            model, sequences, sequence_length, is_decode=is_decode, kept_share=kept_share(plan)
        ),
        assumptions=serving_assumptions(setting),
    )


def check_serving_plan(plan: Plan) -> None:
    """Refuse what only a training does.

    Raises:
        PlanError: It names the key and what inference has.
    """
    for key, value, plain in (
        ("zero", plan.zero_stage, 0),
        ("vp", plan.virtual_stages_per_rank, 1),
        ("tp_inputs", plan.tensor_parallel_inputs, 1),
    ):
        if value != plain:
            raise PlanError(f"{key}={value}: inference has {key}={plain} only")


def split_serving_model(model: Transformer, plan: Plan) -> tuple[ModelPart, ...]:
    """As training deals layers out, without what stands for further predictions and backwards."""
    plain = replace(plan, schedule="1f1b", recompute="none", recompute_layers=None)
    return split_model(replace(model, num_prediction_layers=0), plain, balances=False)


def serving_layer(setting: Serving, key: LayerKey) -> Layer:
    """A layer or an end; a replayed graph costs the host no launches."""
    if isinstance(key, str):
        name = key
        calls = (serving_layers.embedding if key == EMBEDDING else serving_layers.head)(setting)
    else:
        name, window = key.name, setting.model.sliding_window if key.has_window else 0
        calls = serving_layers.layer(
            setting, has_experts=key.has_experts, has_linear=key.has_linear, window=window
        )
    if setting.replays_graph:
        calls = tuple(replace(call, num_launches=0) for call in calls)
    return Layer(name, calls)


def boundary_of(setting: Serving) -> Operation | None:
    """Activations of a micro-batch, whole on every tensor-parallel rank."""
    plan, element = setting.plan, setting.precision.element
    if plan.pipeline_parallel == 1:
        return None
    message_bytes = element.bytes_of(setting.tokens * setting.model.hidden_size)
    return collective_operation(
        "send", message_bytes, next_stage(plan), element, num_groups=plan.world_size // plan.pipeline_parallel
    )


def serving_flops(
    model: Transformer, sequences: int, sequence_length: int, *, is_decode: bool, kept_share: float = 1.0
) -> int:
    """Flops of a forward of all sequences; the head sees one token of each.

    Args:
        kept_share: As of ``flops_per_sequence``.
    """
    num_new = 1 if is_decode else sequence_length
    return sequences * forward_flops(model, num_new, sequence_length, 1, kept_share)


def serving_assumptions(setting: Serving) -> tuple[str, ...]:
    """What every step of an inference assumes, in words."""
    precision = setting.precision
    said = ["logits of the last token only; the next token is drawn from their softmax"]
    if setting.model.is_causal:
        said.append(f"weights in {precision.name}, keys and values in {precision.cache_format}")
    if setting.replays_graph:
        said.append("decoding replays a CUDA graph: the host issues no kernels")
    said += routing_assumptions(setting.model, setting.plan, serves=True)
    if setting.model.experts is not None and sends_tokens(setting):
        said += dispatch_assumptions(setting.model, setting.plan, dispatch_of(setting))
    return tuple(said)
