"""Function calls that an accelerator runs as one operation, whatever the processor here would do.

On CUDA, scaled dot-product attention is one fused kernel, dropout draws and applies its mask in one,
an RMS norm is one, a product over groups of rows is one, and a recurrent layer is one (``recurrent``). On
a CPU they fall apart or have other limits. Under ``AcceleratorCalls`` they are recorded as one operation
each, forward and backward, with the tensors that the accelerator's kernels save for the backward.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from perfcast.torch_internals.eager import grouped_mm, make_gradients, run_engine
from perfcast.workload.capture.recorder import Recorder
from perfcast.workload.capture.recurrent import recurrent_calls


class AcceleratorCalls(TorchFunctionMode):
    """Replaces composite calls by one recorded operation each."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._replacements: dict[Any, Callable[..., Any]] = {
            functional.scaled_dot_product_attention: self._attention,
            torch.dropout: self._dropout,
            functional.dropout: self._dropout,
            grouped_mm: self._grouped_mm,
            getattr(functional, "grouped_mm", None): self._grouped_mm,
            functional.rms_norm: self._rms_norm,
            torch.rms_norm: self._rms_norm,
            functional.multi_head_attention_forward: self._multi_head_attention,
            **recurrent_calls(recorder),
        }

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        replacement = self._replacements.get(func)
        if replacement is None:
            return func(*args, **(kwargs or {}))
        return replacement(*args, **(kwargs or {}))

    def _attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Any:
        if query.ndim == 4:
            return _Attention.apply(self._recorder, query, key, value, attn_mask, is_causal)  # type: ignore[no-untyped-call]
        # Kernels know [batch, head, query, size]; what has fewer or more dims is seen as that.
        if query.ndim == 3:
            heads = [t.unsqueeze(1) for t in (query, key, value)]
        else:
            heads = [t.reshape(-1, *t.shape[-3:]) for t in (query, key, value)]
        output = _Attention.apply(self._recorder, *heads, attn_mask, is_causal)  # type: ignore[no-untyped-call]
        return output.reshape(*query.shape[:-1], value.shape[-1])

    def _multi_head_attention(self, *args: Any, **kwargs: Any) -> Any:
        """nn.MultiheadAttention's function, inside which PyTorch switches this mode off: put in by hand."""
        with (
            patch.object(functional, "scaled_dot_product_attention", self._attention),
            patch.object(functional, "dropout", self._dropout),
        ):
            return functional.multi_head_attention_forward(*args, **kwargs)

    def _rms_norm(
        self,
        input: Tensor,  # noqa: A002
        normalized_shape: Any,
        weight: Tensor | None = None,
        eps: float | None = None,
    ) -> Any:
        return _RmsNorm.apply(self._recorder, input, weight, len(normalized_shape))  # type: ignore[no-untyped-call]

    def _dropout(self, input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002
        if not training or p == 0.0:
            return input
        return torch.native_dropout(input, p, True)[0]

    def _grouped_mm(
        self,
        a: Tensor,
        b: Tensor,
        offs: Tensor | None = None,
        bias: Tensor | None = None,
        out_dtype: Any = None,
    ) -> Any:
        return _GroupedProduct.apply(self._recorder, a, b, offs)  # type: ignore[no-untyped-call]


def run_backward(loss: Tensor) -> None:
    """``loss.backward()`` with the function modes left on.

    PyTorch switches them off inside every call that they see, ``backward`` too; a checkpointed forward
    would then run again as another program than the one that it repeats. The engine itself is not seen.
    """
    with torch.no_grad():
        gradients = make_gradients((loss,), (None,), is_grads_batched=False)
    run_engine((loss,), gradients, False, False, (), allow_unreachable=True, accumulate_grad=True)


def _record_forward(recorder: Recorder, name: str, args: tuple[Any, ...], out: Any) -> None:
    """A custom function's forward runs without grad mode, by which a recorder knows a recomputed forward."""
    with torch.enable_grad():
        recorder.record(name, args, {}, out)


class _Attention(torch.autograd.Function):
    """One fused attention kernel; it saves its inputs, its output and one fp32 number per row."""

    @staticmethod
    def forward(
        ctx: Any,
        recorder: Recorder,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        batch, heads, num_queries, _ = query.shape
        with recorder.paused():
            # Fused kernels write [batch, query, head, size], so that merging the heads is a view.
            output = query.new_empty(batch, num_queries, heads, value.shape[-1]).transpose(1, 2)
            logsumexp = query.new_empty(batch, heads, num_queries, dtype=torch.float32)
        _record_forward(recorder, "attention", (query, key, value, mask, causal), (output, logsumexp))
        ctx.recorder, ctx.causal = recorder, causal
        ctx.save_for_backward(query, key, value, output, logsumexp, mask)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        query, key, value, output, logsumexp, mask = ctx.saved_tensors
        with ctx.recorder.paused():
            gradients = tuple(torch.empty_like(t) for t in (query, key, value))
        args = (gradient, query, key, value, output, logsumexp, mask, ctx.causal)
        ctx.recorder.record("attention_backward", args, {}, gradients)
        return None, *gradients, None, None


class _GroupedProduct(torch.autograd.Function):
    """a[t, k] · b[g, k, n] where the rows of a are split over the g matrices at ``offs``."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, a: Tensor, b: Tensor, offsets: Tensor | None) -> Tensor:
        with recorder.paused():
            output = a.new_empty(a.shape[0], b.shape[-1])
        _record_forward(recorder, "_grouped_mm", (a, b, offsets), output)
        ctx.recorder = recorder
        ctx.save_for_backward(a, b, offsets)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        a, b, offsets = ctx.saved_tensors
        gradient_a = gradient_b = None
        with ctx.recorder.paused():
            if ctx.needs_input_grad[1]:
                gradient_a = torch.empty_like(a)
            if ctx.needs_input_grad[2]:
                gradient_b = torch.empty_like(b)
            transposed_a, transposed_b = a.t(), b.transpose(-2, -1)
        if gradient_a is not None:
            ctx.recorder.record("_grouped_mm", (gradient, transposed_b, offsets), {}, gradient_a)
        if gradient_b is not None:
            ctx.recorder.record("_grouped_mm", (transposed_a, gradient, offsets), {}, gradient_b)
        return None, gradient_a, gradient_b, None


class _RmsNorm(torch.autograd.Function):
    """One fused kernel; it saves its input and one fp32 number per row."""

    @staticmethod
    def forward(ctx: Any, recorder: Recorder, x: Tensor, weight: Tensor | None, num_dims: int) -> Tensor:
        with recorder.paused():
            output = torch.empty_like(x)
            scale = x.new_empty(*x.shape[:-num_dims], *([1] * num_dims), dtype=torch.float32)
        _record_forward(recorder, "_fused_rms_norm", (x, weight), (output, scale))
        ctx.recorder = recorder
        ctx.save_for_backward(x, scale, weight)
        return output

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, scale, weight = ctx.saved_tensors
        with ctx.recorder.paused():
            gradient_x = torch.empty_like(x)
            gradient_weight = torch.empty_like(weight) if weight is not None else None
        outputs = (gradient_x,) if gradient_weight is None else (gradient_x, gradient_weight)
        ctx.recorder.record("_fused_rms_norm_backward", (gradient, x, scale, weight), {}, outputs)
        return None, gradient_x, gradient_weight, None
