"""What moves between a device and its host where a plan keeps something there.

'optimizer': once a step, gradients go out, the host updates, weights come in. 'parameters': a layer's weights
come in for its forward and again for its backward, too. 'activations': what a layer keeps for its backward
goes out behind its forward and comes in before its backward, beside the compute of other layers
(Ren et al.: ZeRO-Offload, ATC 2021; Rajbhandari et al.: ZeRO-Infinity, SC 2021).
"""

from __future__ import annotations

from perfcast.core.machine.host import FROM_HOST, TO_HOST, host_copy
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.core.work import Call, Calls, Stream
from perfcast.workload.blocks.local import Local, weight_type
from perfcast.workload.blocks.step.data_parallel import ParameterCounts, owned

MODULE = "offload"


def incoming_weights(plan: Plan, training: Training, layer: ParameterCounts) -> Calls:
    """This rank's part of a layer's weights, from the host; what is sharded is gathered behind it."""
    if plan.offload != "parameters":
        return ()
    elements = owned(plan, layer) if plan.zero_stage == 3 else layer.num_dense + layer.num_expert
    return (Call(host_copy(FROM_HOST, elements, weight_type(training)), Stream.COPY, (), MODULE),)


def with_activations_away(local: Local, offload: str, forward: Calls, backward: Calls) -> tuple[Calls, Calls]:
    """A layer whose kept tensors are copied out while its forward runs, and in while its backward does.

    A copy stands beside the layer's own compute, which stands for its neighbours': pinned buffers let the
    copies of one layer run beside the next.
    """
    if offload != "activations":
        return forward, backward
    elements = kept_elements(local)
    out = Call(host_copy(TO_HOST, elements, local.element), Stream.COPY, (), MODULE)
    back = Call(host_copy(FROM_HOST, elements, local.element), Stream.COPY, (), MODULE)
    return (*forward, out), (*backward, back)


def kept_elements(local: Local) -> int:
    """Inputs of norms, products, activation and attention of a dense layer; of full recomputation its input.

    (Korthikanti et al.: 2022, section 4.1, with one fused kernel for attention.)
    """
    own = local.own_tokens * local.own_hidden
    if local.plan.recompute == "full":
        return own
    heads, model = local.heads, local.model
    attention = heads.joint_width + heads.output_width
    mlp = (3 if model.is_gated else 2) * model.ffn_hidden_size // local.plan.tensor_parallel
    return 4 * own + local.tokens * (attention + mlp)
