"""Models built of symbolic tensors whose constructors ask for numbers, or spend their time on values.

A constructor may compute with small tensors and ask for the result, such as the rates at which its layers are
dropped; those tensors are real. It draws the values of weights and fills tables element by element, which
symbolic tensors do not have; that is left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from perfcast.torch_internals.eager import active_fake_mode, is_fake, tree_leaves, unset_fake_temporarily
from perfcast.workload.models.weights import replace_weights

_REAL = (torch.linspace, torch.arange, torch.tensor)
#: Methods and functions of ``torch.nn.init`` that change values alone and return what they changed.
_FILLS = frozenset(
    "normal_ uniform_ trunc_normal_ fill_ zero_ copy_ erfinv_ clamp_ add_ sub_ mul_ div_ constant_ ones_ "
    "zeros_ xavier_uniform_ xavier_normal_ kaiming_uniform_ kaiming_normal_ orthogonal_ __setitem__".split()
)


class without_values(TorchFunctionMode):  # noqa: N801 (a context manager, read as a phrase)
    """While a model is built: ranges and given numbers are real, and so is what is made of them alone."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.__deepcopy__:  # a symbolic tensor cannot be given a storage of its own
            return args[0].detach().clone()
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        if func in _REAL or (tensors and not any(map(is_fake, tensors))):
            with unset_fake_temporarily():
                return func(*args, **kwargs)
        if tensors and is_fake(tensors[0]) and getattr(func, "__name__", "") in _FILLS:
            return tensors[0]
        return func(*args, **kwargs)


def make_symbolic(module: nn.Module) -> None:
    """Under fake tensors: real weights and buffers of a module become symbolic ones."""
    if active_fake_mode() is not None:
        replace_weights(module, lambda values: values if is_fake(values) else torch.empty_like(values))
