"""What a rank runs once a step: the norm of the gradients, the update, the weights' way back.

Adam in one pass reads parameter, gradient and two moments and writes all but the gradient; where weights have
fp32 copies the half-precision ones are written behind it (Kingma and Ba, 2015; Rajbhandari et al.: ZeRO, SC
2020, section 3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfcast.core.collective import collective_operation
from perfcast.core.dtype import DType
from perfcast.core.machine.host import FROM_HOST, TO_HOST, host_copy, host_update
from perfcast.core.operation import Operation
from perfcast.core.plan import Plan
from perfcast.core.plans.placement import group_of
from perfcast.core.training import Training
from perfcast.core.work import Call, Calls, Stream
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.local import gradient_type, weight_type
from perfcast.workload.blocks.step.data_parallel import (
    ParameterCounts,
    gather_calls,
    owned,
)
from perfcast.workload.blocks.tape import Tape

MODULE = "optimizer"
#: Tensors of one launch of a kernel over lists (PyTorch: ATen/native/cuda/MultiTensorApply.cuh).
_TENSORS_A_LAUNCH = 30
#: Passes of Adam written with one kernel for each step of its formula, as (tensors read, written).
_FOREACH_ADAM = (
    ("_foreach_mul_", 1, 1), ("_foreach_lerp_", 2, 1), ("_foreach_mul_", 1, 1), ("_foreach_addcmul_", 3, 1),
    ("_foreach_sqrt", 1, 1), ("_foreach_div_", 1, 1), ("_foreach_add_", 1, 1), ("_foreach_addcdiv_", 3, 1),
)  # fmt: skip
_FP32 = DType.FP32


@dataclass(frozen=True, slots=True)
class State:
    """What an optimizer reads and writes for a parameter beside the parameter and its gradient."""

    name: str
    moments: tuple[DType, ...]


_STATES: Mapping[str, State] = {
    "sgd": State("_fused_sgd_", ()),
    "momentum": State("_fused_sgd_", (_FP32,)),
    "adam": State("_fused_adam_", (_FP32, _FP32)),
    "adamw": State("_fused_adamw_", (_FP32, _FP32)),
    "adamw_8bit": State("_adamw_8bit_", (DType.INT8, DType.INT8)),
    "adafactor": State("_adafactor_", ()),
    "muon": State("_fused_sgd_", (_FP32,)),
}


def optimizer_calls(
    plan: Plan,
    training: Training,
    parameters: ParameterCounts,
    *,
    num_tensors: int,
    shares: Calls = (),
) -> Calls:
    """The calls of one rank of a stage; none but reductions where it has nothing that trains.

    Args:
        parameters: That train.
        num_tensors: Parameters of the stage, of which kernels over lists take several a launch.
        shares: Gradient reductions between stages or tensor-parallel ranks, which go first.
    """
    if training.optimizer == "none" or not (parameters.num_dense or parameters.num_expert):
        return shares
    tape, mine = Tape(), owned(plan, parameters)
    profile, gradient = load_training_profile(training.framework).kernels, gradient_type(training)
    launches = max(1, num_tensors // _TENSORS_A_LAUNCH)
    tape.add(shares)
    _norm(tape, plan, mine, gradient, launches)
    if profile.scales_gradients or training.dtype == "fp16":
        _run(tape, kernels.optimizer("_foreach_mul_", mine, (gradient,), (gradient,)), launches)
    if plan.offload in ("optimizer", "parameters"):
        _update_on_host(tape, training, mine, gradient)
    else:
        for operation in _update(training, mine, gradient):
            _run(tape, operation, launches)
    if gathers_after_step(plan, training):
        for call in gather_calls(plan, training, parameters):
            tape.collective_call(call)
    whole = parameters.num_dense + parameters.num_expert
    for operation in _narrow_weights(training, whole):
        _run(tape, operation, launches)
    if profile.has_gradient_buffer:
        cleared = mine if plan.zero_stage > 1 else whole
        _run(tape, kernels.optimizer("_foreach_zero_", cleared, (), (gradient,)), launches)
    tape.finish()
    return tape.calls()


def gathers_after_step(plan: Plan, training: Training) -> bool:
    """Whether sharded weights are gathered behind the update, not beside the next forward."""
    overlaps = plan.overlaps_weights and load_training_profile(training.framework).kernels.overlaps_weights
    return plan.zero_stage in (1, 2) and not overlaps


def _update(training: Training, mine: int, gradient: DType) -> tuple[Operation, ...]:
    """One pass, or one for each step of the formula; a pass of its own writes half-precision copies."""
    state, is_half = _STATES[training.optimizer], weight_type(training) is not _FP32
    profile = load_training_profile(training.framework).kernels
    keeps_half = is_half and profile.keeps_half_weights
    cast = (kernels.optimizer("_foreach_copy_", mine, (_FP32,), (weight_type(training),)),)
    if profile.optimizer_kernels == "foreach" and training.optimizer in ("adam", "adamw"):
        passes = tuple(
            kernels.optimizer(name, mine, (_FP32,) * read, (_FP32,) * written)
            for name, read, written in _FOREACH_ADAM
        )
    else:
        moments = state.moments
        passes = (kernels.optimizer(state.name, mine, (_FP32, gradient, *moments), (_FP32, *moments)),)
    return (*passes, *(cast if keeps_half else ()))


def _narrow_weights(training: Training, elements: int) -> tuple[Operation, ...]:
    """Narrow weights, as they lie and transposed, once a step (Transformer Engine: module/base.py).

    Frozen ones are made once for all steps (Transformer Engine: fp8_model_init); adapters have none.
    """
    form = training.precision.products
    if not form.is_narrow or training.tuning.adapters is not None:
        return ()
    wide, narrow = weight_type(training), form.weight.element
    return (kernels.optimizer("quantise", elements, (wide,), (narrow, narrow)),)


def _norm(tape: Tape, plan: Plan, mine: int, gradient: DType, launches: int) -> None:
    """All gradients are read once; a number of each rank is summed."""
    _run(tape, kernels.optimizer("_foreach_norm", mine, (gradient,), ()), launches)
    ranks = group_of(plan, "model" if plan.zero_stage == 0 else "world")
    tape.collective(
        "all_reduce", _FP32.bytes_of(1), ranks, Stream.DATA, MODULE, world_size=plan.world_size, dtype=_FP32
    )


def _update_on_host(tape: Tape, training: Training, mine: int, gradient: DType) -> None:
    """Gradients go out, all states stay, weights come in."""
    state = _STATES[training.optimizer].moments
    update = host_update(mine, (_FP32, gradient, *state), (_FP32, *state))
    for operation in (
        host_copy(TO_HOST, mine, gradient),
        update,
        host_copy(FROM_HOST, mine, weight_type(training)),
    ):
        tape.collective_call(Call(operation, Stream.COPY, (), MODULE, num_launches=1))


def _run(tape: Tape, operation: Operation, launches: int) -> None:
    tape.run(operation, MODULE, num_launches=launches)


def shared_embedding(plan: Plan, training: Training, num_elements: int) -> Call | None:
    """The gradient of a table that the first and the last stage hold alike; None on one stage."""
    ranks = group_of(plan, "embedding")
    if len(ranks) < 2:
        return None
    dtype = gradient_type(training)
    operation = collective_operation(
        "all_reduce", dtype.bytes_of(num_elements), ranks, dtype,
        num_groups=plan.world_size // plan.pipeline_parallel,
    )  # fmt: skip
    return Call(operation, Stream.PIPELINE, (), "shared embedding")


def shared_norms(plan: Plan, training: Training, num_elements: int) -> Call | None:
    """Gradients of norms, of which each tensor-parallel rank has summed its part of the sequence."""
    if not plan.sequence_parallel or plan.tensor_parallel < 2 or not num_elements:
        return None
    dtype, ranks = gradient_type(training), group_of(plan, "tensor")
    operation = collective_operation(
        "all_reduce", dtype.bytes_of(num_elements), ranks, dtype, num_groups=plan.world_size // len(ranks)
    )
    return Call(operation, Stream.TENSOR, (), "norms")
