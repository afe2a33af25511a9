"""What the installed PyTorch can call: which operators exist, on which devices, and which are composite."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from perfcast.replays.program.schema_text import Schema


class OperatorTable(Protocol):
    """Answers about operators, named with their overload ('aten::add.Tensor')."""

    def exists(self, name: str) -> bool:
        """Whether it is registered."""

    def is_composite(self, name: str) -> bool:
        """Whether it does nothing itself but call other operators, on every device."""

    def runs_on(self, name: str, device: str, *, is_sparse: bool = False) -> bool:
        """Whether it can be called with tensors (or sparse tensors) on 'cpu', 'cuda:0', …"""


class InstalledOperators:
    """The operators of the PyTorch that is installed, with what has been loaded into it."""

    def exists(self, name: str) -> bool:
        """Whether the dispatcher knows it."""
        return _exists(name)

    def is_composite(self, name: str) -> bool:
        """Whether its only kernel is made of other operators, autograd's included."""
        return _exists(name) and _has(name, "CompositeImplicitAutograd")

    def runs_on(self, name: str, device: str, *, is_sparse: bool = False) -> bool:
        """As the dispatcher has it; a device that this PyTorch is not built for counts as able."""
        key = _KEYS.get(device.partition(":")[0], "CPU")
        if not _exists(name):
            return False
        return not _is_built_for(key) or _reaches(name, f"Sparse{key}" if is_sparse else key)


_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}


@cache
def _exists(name: str) -> bool:
    from perfcast.torch_internals.eager import has_kernel

    return bool(has_kernel(name))


@cache
def _has(name: str, key: str) -> bool:
    from perfcast.torch_internals.eager import has_kernel_for_key

    return bool(has_kernel_for_key(name, key))


@cache
def _reaches(name: str, key: str) -> bool:
    from perfcast.torch_internals.eager import reaches_kernel

    return bool(reaches_kernel(name, key))


@cache
def _is_built_for(key: str) -> bool:
    return _has("aten::empty.memory_format", key)


def full_name(schema: Schema) -> str:
    """Operator with its overload, as the dispatcher names it."""
    return f"{schema.operator}.{schema.overload}" if schema.overload else schema.operator
