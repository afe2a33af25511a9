"""Private names of PyTorch that capturing, measuring, recording and replaying any program use.

=================================  =====================================================================
fake tensors                       ``FakeTensorMode`` and its errors; ``active_fake_mode``
dispatch modes                     ``TorchDispatchMode``, ``dispatch_mode_stack``, wrapper subclasses
autograd                           ``current_autograd_node``, ``next_sequence_number``, ``make_gradients``,
                                   ``run_engine``, ``after_backward``, ``set_grad_enabled``
operators                          ``OpOverload``, ``operator_names``, ``has_kernel`` …
nested values                      ``tree_leaves``, ``tree_map_only``
profiler                           ``ProfilerOptions``, ``is_profiler_enabled``
GPU                                ``spin_gpu``: cycles that a kernel takes
=================================  =====================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfcast.torch_internals import needed_for

with needed_for("running a program symbolically"):
    from torch import _grouped_mm as grouped_mm
    from torch import _scaled_mm as scaled_mm
    from torch._C import _current_autograd_node as current_autograd_node
    from torch._C import _dispatch_get_all_op_names as operator_names
    from torch._C import _dispatch_has_computed_kernel_for_dispatch_key as reaches_kernel
    from torch._C import _dispatch_has_kernel as has_kernel
    from torch._C import _dispatch_has_kernel_for_dispatch_key as has_kernel_for_key
    from torch._C import _set_grad_enabled as set_grad_enabled
    from torch._C._autograd import _get_sequence_nr as next_sequence_number
    from torch._C._profiler import _ExperimentalConfig as ProfilerOptions
    from torch._guards import active_fake_mode
    from torch._ops import OpOverload, OpOverloadPacket
    from torch._prims_common import suggest_memory_format
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
        is_fake,
        unset_fake_temporarily,
    )
    from torch.autograd import _make_grads as make_gradients
    from torch.autograd.graph import _engine_run_backward as run_engine
    from torch.cuda import _sleep as spin_gpu
    from torch.utils._python_dispatch import (
        TorchDispatchMode,
        is_traceable_wrapper_subclass,
        is_traceable_wrapper_subclass_type,
    )
    from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as dispatch_mode_stack
    from torch.utils._pytree import tree_leaves, tree_map_only

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensorMode",
    "OpOverload",
    "OpOverloadPacket",
    "ProfilerOptions",
    "TorchDispatchMode",
    "active_fake_mode",
    "after_backward",
    "current_autograd_node",
    "dispatch_mode_stack",
    "grouped_mm",
    "has_kernel",
    "has_kernel_for_key",
    "is_fake",
    "is_profiler_enabled",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "make_gradients",
    "next_sequence_number",
    "operator_names",
    "reaches_kernel",
    "run_engine",
    "scaled_mm",
    "set_grad_enabled",
    "spin_gpu",
    "suggest_memory_format",
    "tree_leaves",
    "tree_map_only",
    "unset_fake_temporarily",
]


def after_backward(callback: Callable[[], None]) -> None:
    """Call something when the backward that runs now has ended."""
    engine: Any = torch.autograd.Variable._execution_engine
    engine.queue_callback(callback)


def is_profiler_enabled() -> bool:
    """Whether PyTorch's profiler runs; False where it does not say."""
    return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", False))
