"""Operators over lists of tensors, as PyTorch's own optimizers call them.

One that writes its first list in place changes no shape, no type and no storage: run symbolically it does
nothing but compare each tensor's shape with the others', which for a state that was made like its parameters
holds. With hundreds of parameters that was most of what a capture took.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from perfcast.torch_internals.eager import TorchDispatchMode, is_fake


class ListsWrittenInPlace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it, operators that write lists of symbolic tensors in place are not run, only seen by others.

    Numbers of the host that fake tensors follow by value (an optimizer's count of its steps) are computed.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        writes_lists = func._schema.name.startswith("aten::_foreach_") and not func._schema.returns
        if writes_lists and not any(_has_value(tensor) for tensor in args[0]):
            return None
        return func(*args, **(kwargs or {}))


def _has_value(tensor: Tensor) -> bool:
    """Whether it is a real tensor, or a fake one that is followed by value."""
    return not is_fake(tensor) or getattr(tensor, "constant", None) is not None
