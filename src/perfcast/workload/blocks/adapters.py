"""Low-rank adapters beside linear layers: two narrow products forward, four backward, and what joins them.

y += scale · B·(A·dropout(x)) (Hu et al.: LoRA, 2021, section 4.1; huggingface/peft: tuners/lora/layer.py).
Under tensor parallelism as Megatron Bridge cuts them (peft/utils.py, ParallelLinearAdapter): beside a
column-parallel layer A's outputs are gathered, tokens × rank; beside a row-parallel one they are summed, and
the outputs of B, of which each rank has made a part, are gathered. Backward the gradient of tokens × rank is
summed over the ranks, and without sequence parallelism that of a column-parallel layer's input once more.
What sequence parallelism has gathered for a column-parallel layer is read by its adapter too, so that layer
does not gather it in parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfcast.core.dtype import DType
from perfcast.core.tuning.weights import Adapter
from perfcast.core.work import Stream
from perfcast.workload.blocks import kernels
from perfcast.workload.blocks.local import ADAPTER, Local
from perfcast.workload.blocks.products import multiply, weight_gradient
from perfcast.workload.blocks.tape import Tape


def adapters_forward(tape: Tape, local: Local, module: str) -> None:
    """Behind the linear layers of a module; nothing where these have no adapters."""
    for adapter in local.adapters_of(module):
        _forward(tape, _Beside(local, adapter))


def adapters_backward(tape: Tape, local: Local, module: str) -> None:
    """Gradients of both matrices, and of the input, which joins that of the linear layer."""
    for adapter in local.adapters_of(module):
        _backward(tape, _Beside(local, adapter))


@dataclass(frozen=True, slots=True)
class _Beside:
    """An adapter and the rank that runs it."""

    local: Local
    adapter: Adapter

    @property
    def module(self) -> str:
        """Of its kernels."""
        return self.adapter.module + ADAPTER

    @property
    def dropout(self) -> float:
        """Share of the input that is dropped."""
        adapters = self.local.training.tuning.adapters
        return 0.0 if adapters is None else adapters.dropout

    @property
    def rows(self) -> int:
        """Tokens of its products: beside a layer that no rank cuts, those outside the products' region."""
        is_outside = self.adapter.cuts == 1 and not self.adapter.is_row
        return self.local.own_tokens if is_outside else self.local.tokens

    @property
    def joined_rows(self) -> int:
        """Tokens of the output to which its own is added."""
        return self.local.own_tokens if self.adapter.is_row else self.rows

    @property
    def is_cut(self) -> bool:
        """Whether several ranks share it."""
        return self.adapter.cuts > 1

    @property
    def trades(self) -> bool:
        """Whether parts of the outputs are traded for tokens, which sequence parallelism cuts."""
        adapters = self.local.training.tuning.adapters
        cuts_tokens = self.is_cut and self.adapter.is_row and self.local.plan.sequence_parallel
        return cuts_tokens and adapters is not None and adapters.trades_outputs

    def share(self, tape: Tape, collective: str, width: int) -> None:
        """Tokens × width among the tensor-parallel ranks."""
        if not self.is_cut:
            return
        local = self.local
        tape.collective(
            collective, local.element.bytes_of(local.tokens * width), local.tensor_ranks, Stream.TENSOR,
            self.module, world_size=local.plan.world_size, dtype=local.element,
        )  # fmt: skip


def _forward(tape: Tape, beside: _Beside) -> None:
    local, adapter, rows = beside.local, beside.adapter, beside.rows
    if beside.dropout:
        tape.run(kernels.dropout(rows, adapter.inputs, local.element), beside.module)
    _cast(tape, beside, adapter.own_rank * adapter.inputs)
    _multiply(tape, beside, (rows, adapter.own_rank, adapter.inputs), "nt")
    beside.share(tape, "all_reduce" if adapter.is_row else "all_gather", adapter.rank)
    _cast(tape, beside, adapter.own_outputs * adapter.rank)
    _multiply(tape, beside, (rows, adapter.own_outputs, adapter.rank), "nt")
    if beside.trades:
        beside.share(tape, "all_to_all", adapter.own_outputs)
    elif adapter.is_row:
        beside.share(tape, "all_gather", adapter.outputs)
    output = kernels.tensor(local.element, beside.joined_rows, adapter.outputs)
    tape.run(kernels.elementwise("mul", (output,), (output,)), beside.module)
    tape.run(kernels.elementwise("add", (output, output), (output,)), beside.module)


def _backward(tape: Tape, beside: _Beside) -> None:
    local, adapter, rows = beside.local, beside.adapter, beside.rows
    output = kernels.tensor(local.element, beside.joined_rows, adapter.outputs)
    tape.run(kernels.elementwise("mul", (output,), (output,)), beside.module)
    if beside.trades:
        beside.share(tape, "all_to_all", adapter.own_outputs)
    elif adapter.is_row and local.plan.sequence_parallel:
        beside.share(tape, "all_gather", adapter.outputs)
    _multiply(tape, beside, (rows, adapter.rank, adapter.own_outputs), "nn")
    beside.share(tape, "all_reduce", adapter.rank)
    weight_gradient(tape, local, rows, adapter.own_outputs, adapter.rank, beside.module, in_fp8=False)
    _multiply(tape, beside, (rows, adapter.inputs, adapter.own_rank), "nn")
    weight_gradient(tape, local, rows, adapter.own_rank, adapter.inputs, beside.module, in_fp8=False)
    if not adapter.is_row and not local.plan.sequence_parallel:
        beside.share(tape, "all_reduce", adapter.inputs)
    if beside.dropout:
        tape.run(kernels.dropout_backward(rows, adapter.inputs, local.element), beside.module)
    x = kernels.tensor(local.element, rows, adapter.inputs)
    tape.run(kernels.elementwise("add", (x, x), (x,)), beside.module)


def _multiply(tape: Tape, beside: _Beside, shape: tuple[int, int, int], layout: str) -> None:
    """Adapters compute in the format of activations, in an fp8 training too."""
    multiply(tape, beside.local, shape, layout, beside.module, in_fp8=False)


def _cast(tape: Tape, beside: _Beside, num_elements: int) -> None:
    """Plain PyTorch keeps adapters in fp32 under autocast (huggingface/peft: autocast_adapter_dtype)."""
    local = beside.local
    if local.profile.casts_weights and local.element is not DType.FP32:
        tape.run(kernels.copy(1, num_elements, DType.FP32, local.element), beside.module)
