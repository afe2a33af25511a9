"""A model and a plan → what every rank runs, and what it holds."""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.cluster import Cluster
from perfcast.core.forecast.footprint import PlanMemory
from perfcast.core.hardware import Device
from perfcast.core.mode import MODES, Mode
from perfcast.core.plan import Plan
from perfcast.core.training import DTYPES, Training
from perfcast.core.transformer import Transformer
from perfcast.core.weights import count_parameters
from perfcast.core.words import known_word
from perfcast.core.work import StepWork
from perfcast.errors import ModelError, PlanError
from perfcast.memory.footprint import estimate_footprint, estimate_serving_footprint
from perfcast.prediction.plan.memory import default_framework, read_model, to_transformer


@dataclass(frozen=True)
class StepFacts:
    """What is asked of a model under a plan, all names resolved.

    Attributes:
        model: As asked for.
        training: None for inference.
        dtype: Of the products; for inference of weights and cache too.
        sequence_length: Of a sequence; for decode what the cache holds.
        parameter_count: Of the whole model.
        is_captured: Whether its work comes from a captured graph, not from its sizes.
    """

    model: str
    plan: Plan
    mode: Mode
    training: Training | None
    dtype: str
    sequence_length: int
    parameter_count: int
    is_captured: bool = False


def resolve_step(
    model: str | Transformer,
    plan: Plan,
    *,
    mode: Mode = "train",
    training: Training | None = None,
    dtype: str = "bf16",
    sequence_length: int | None = None,
) -> tuple[StepFacts, Transformer]:
    """What is asked for, and the model's sizes.

    Args:
        model: Catalog name, a Hugging Face config.json or its folder, or the sizes themselves.
        training: By default AdamW in ``dtype``, by the framework that ``default_framework`` names.

    Raises:
        InputError: An unknown name, a model without closed form, no sequence length.
    """
    known_word("mode", mode, MODES)
    if isinstance(model, Transformer):
        name, sizes, own_length = "transformer", model, None
    else:
        config, architecture, own_length = read_model(model)
        name, sizes = model, to_transformer(config, architecture, model)
    length = own_length if sequence_length is None else sequence_length
    if length is None:
        raise ModelError(f"{name} states no sequence length; give --sequence-length")
    if length < 1:
        raise PlanError(f"sequence length {length}: must be at least 1")
    if mode == "train":
        training = training or Training(
            dtype=known_word("dtype", dtype, DTYPES), framework=default_framework(plan)
        )
    else:
        training = None
    precision = dtype if training is None else training.dtype
    return StepFacts(name, plan, mode, training, precision, length, count_parameters(sizes)), sizes


def build_work(facts: StepFacts, model: Transformer) -> StepWork:
    """What every rank runs.

    Raises:
        PlanError: A plan that cannot cut the model; the message states the equation.
    """
    if facts.training is not None:
        from perfcast.workload.blocks import build_step_work

        return build_step_work(model, facts.plan, facts.training, facts.sequence_length)
    from perfcast.workload.blocks.serving.step import build_serving_work

    is_decode = facts.mode == "decode"
    return build_serving_work(model, facts.plan, facts.dtype, facts.sequence_length, is_decode=is_decode)


def estimate_plan_memory(facts: StepFacts, model: Transformer, device: Device) -> PlanMemory:
    """Memory of the worst stage, in closed form.

    Raises:
        PlanError: A plan that the framework cannot follow.
    """
    plan, length = facts.plan, facts.sequence_length
    if facts.training is not None:
        footprint = estimate_footprint(model, plan, facts.training, length, device=device)
    else:
        footprint = estimate_serving_footprint(
            model, plan, facts.dtype, length, is_decode=facts.mode == "decode", device=device
        )
    return PlanMemory(
        model=facts.model, device=device.name, device_title=device.title, mode=facts.mode, plan=plan,
        training=facts.training, dtype=facts.dtype, sequence_length=length,
        parameter_count=facts.parameter_count, capacity_bytes=device.memory_bytes, footprint=footprint,
    )  # fmt: skip


def check_devices(plan: Plan, cluster: Cluster) -> None:
    """Whether the plan takes the cluster as a whole.

    Raises:
        PlanError: It does not; the message states the equation.
    """
    if plan.world_size != cluster.num_devices:
        raise PlanError(
            f"dp={plan.data_parallel} · tp={plan.tensor_parallel} · pp={plan.pipeline_parallel} · "
            f"cp={plan.context_parallel} = {plan.world_size} devices, but {cluster.name} has "
            f"{cluster.num_devices}"
        )
