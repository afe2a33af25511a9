"""Saved sources of Triton kernels as operators: ``triton::NAME``, registered in each process that plays them.

A source is code that somebody else wrote: nothing is registered unless the user allowed it, and nothing is
compiled before it is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from perfcast.errors import TraceError
from perfcast.files.reading import read_text
from perfcast.replays.program.program import KernelSource

if TYPE_CHECKING:
    import torch

#: Kept for the life of the process: an operator is gone with what registered it.
_registered: dict[KernelSource, torch.library.Library] = {}


def is_triton_here() -> bool:
    """Whether Triton can be imported."""
    return find_spec("triton") is not None


def register_kernels(sources: Iterable[KernelSource]) -> None:
    """Make operators of kernels, those that are not yet."""
    import torch

    for source in sources:
        if source in _registered:
            continue
        space, _, name = source.operator.partition("::")
        library = torch.library.Library(space, "FRAGMENT")  # type: ignore[no-untyped-call]
        library.define(source.schema.partition("::")[2])  # type: ignore[no-untyped-call]
        library.impl(  # type: ignore[no-untyped-call]
            name, _lazily(source), "CompositeExplicitAutograd"
        )
        _registered[source] = library


def _lazily(source: KernelSource) -> Callable[..., None]:
    """Compiles the kernel when it is first called."""
    compiled: list[Callable[..., None]] = []

    def call(*arguments: Any) -> None:
        if not compiled:
            from perfcast.torch_internals.generated_kernels import compiled_kernel

            text = read_text(source.path, what="the source of a kernel", error=TraceError)
            compiled.append(compiled_kernel(source.kernel, text))
        compiled[0](*arguments)

    return call
