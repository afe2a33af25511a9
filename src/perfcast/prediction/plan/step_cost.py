"""A rough step time of a transformer under a plan, to weigh one plan against another.

    products    6 · parameters · tokens flops, 2 more with full recomputation, and attention's
    weights     each micro-batch reads its weights three times from memory, whatever its size
    exchange    tensor parallelism: 8 · b·s·h elements a layer and micro-batch, 12 if recomputed; ZeRO 3: two
                gathers of the weights a micro-batch; ZeRO 2 and 3: one reduction a micro-batch; all over the
                link of a device
    bubble      (stages - 1) / (micro-batches · virtual stages) of the rest
    host        an offloaded optimizer: gradients out and weights in over PCIe, moments through host memory;
                offloaded activations out and in

Constants: products at 0.5 of the peak, links at 0.8 of theirs; 50 GB/s a device between servers of eight
(one 400 Gb/s adapter each: NVIDIA DGX H100 datasheet), PCIe 4 at 32 GB/s (PCI-SIG), host memory 200 GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.hardware import Device
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.transformer import Transformer
from perfcast.core.weights import count_parameters
from perfcast.memory.footprint.activations import lay_out, layer_activations, layer_bytes
from perfcast.memory.footprint.habits import habits_of

_ACHIEVED, _LINK_SHARE = 0.5, 0.8
_SERVER_DEVICES = 8
_BETWEEN_SERVERS, _PCIE, _HOST_MEMORY = 50e9, 32e9, 200e9


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of a step by cause, on the busiest device."""

    product_seconds: float
    weight_seconds: float
    tensor_exchange_seconds: float
    data_exchange_seconds: float
    offload_seconds: float
    bubble_seconds: float

    @property
    def seconds(self) -> float:
        """Sum of all."""
        return (
            self.product_seconds + self.weight_seconds + self.tensor_exchange_seconds
            + self.data_exchange_seconds + self.offload_seconds + self.bubble_seconds
        )  # fmt: skip


def estimate_step_cost(
    model: Transformer, plan: Plan, training: Training, sequence_length: int, device: Device
) -> StepCost:
    """The rough time of one step.

    Raises:
        PlanError: The device has no arithmetic in the training's format.
    """
    shards = plan.tensor_parallel * plan.pipeline_parallel
    elements = count_parameters(model) / shards
    experts = model.experts
    active = elements
    if experts is not None:
        elements_of_expert = (3 if model.is_gated else 2) * model.hidden_size * experts.ffn_hidden_size
        idle = (
            model.num_expert_layers * (experts.num_experts - experts.experts_per_token) * elements_of_expert
        )
        active = (count_parameters(model) - idle) / shards
        elements = active + idle / shards / plan.expert_parallel
    tokens = plan.micro_batch_size * sequence_length / plan.context_parallel * plan.num_micro_batches
    product = _product_seconds(model, plan, training, sequence_length, device, active, tokens)
    weight = plan.num_micro_batches * 3 * 2 * elements / device.memory_bytes_per_second
    tensor = _tensor_exchange_seconds(model, plan, device, tokens)
    data = _data_exchange_seconds(plan, device, elements)
    work = product + weight + tensor
    waits = (plan.pipeline_parallel - 1) / (plan.num_micro_batches * plan.virtual_stages_per_rank)
    offload = _offload_seconds(plan, elements)
    if plan.offload == "activations":
        offload = _activation_seconds(model, plan, training, sequence_length)
    return StepCost(product, weight, tensor, data, offload, work * waits)


def _product_seconds(
    model: Transformer,
    plan: Plan,
    training: Training,
    sequence_length: int,
    device: Device,
    elements: float,
    tokens: float,
) -> float:
    layers = model.num_layers / plan.pipeline_parallel
    heads = model.num_attention_heads * model.head_size / plan.tensor_parallel
    attention = 4 * tokens * sequence_length * heads * layers  # forward, causal or not
    forward = 2 * elements * tokens + attention
    again = {"none": 0.0, "selective": attention, "full": forward}[plan.recompute]
    again *= _recomputed_share(model, plan)
    return (3 * forward + again) / (_ACHIEVED * _peak(device, training.dtype))


def _recomputed_share(model: Transformer, plan: Plan) -> float:
    """Of the layers, what is computed again."""
    if plan.recompute_layers is None:
        return 1.0
    num_parts = plan.pipeline_parallel * plan.virtual_stages_per_rank
    return min(1.0, plan.recompute_layers * num_parts / model.num_layers)


def _peak(device: Device, dtype: str) -> float:
    return device.peak_flops_per_second(DType[dtype.upper()], matrix_units=True)


def _link(device: Device, num_devices: int) -> float:
    rate = device.link_bytes_per_second if num_devices <= _SERVER_DEVICES else _BETWEEN_SERVERS
    return _LINK_SHARE * rate


def _tensor_exchange_seconds(model: Transformer, plan: Plan, device: Device, tokens: float) -> float:
    degree = plan.tensor_parallel
    if degree == 1:
        return 0.0
    times = 8 + (4 * _recomputed_share(model, plan) if plan.recompute == "full" else 0)
    num_bytes = 2 * times * tokens * model.hidden_size * model.num_layers / plan.pipeline_parallel
    return num_bytes * (degree - 1) / degree / _link(device, degree)


def _data_exchange_seconds(plan: Plan, device: Device, elements: float) -> float:
    replicas = plan.num_dense_replicas
    if replicas == 1:
        return 0.0
    gathers = 2 * plan.num_micro_batches if plan.zero_stage == 3 else 1
    if plan.zero_stage == 3 and not plan.reshard_after_forward:
        gathers = plan.num_micro_batches
    reductions = plan.num_micro_batches if plan.zero_stage >= 2 else 1
    num_bytes = 2 * elements * (gathers + reductions) * (replicas - 1) / replicas
    return num_bytes / _link(device, plan.ranks_per_stage)


def _offload_seconds(plan: Plan, elements: float) -> float:
    if plan.offload not in ("optimizer", "parameters"):
        return 0.0
    share = elements / (plan.num_dense_replicas if plan.zero_stage else 1)
    gathered = 2 * 2 * plan.num_micro_batches * elements if plan.offload == "parameters" else 0.0
    return ((4 + 2) * share + gathered) / (_LINK_SHARE * _PCIE) + 2 * 16 * share / _HOST_MEMORY


def _activation_seconds(model: Transformer, plan: Plan, training: Training, sequence_length: int) -> float:
    """Activations of all layers out to the host and back, for each micro-batch."""
    layout = lay_out(plan, training, sequence_length)
    habits = habits_of(training)
    saved = layer_activations(model, plan, training, habits, layout, has_experts=model.experts is not None)
    num_bytes = 2 * layer_bytes(saved) * model.num_layers / plan.pipeline_parallel
    return plan.num_micro_batches * num_bytes / (_LINK_SHARE * _PCIE)
