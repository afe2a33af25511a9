"""Private names of PyTorch that running a saved Triton kernel uses: its compiler, its stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perfcast.torch_internals import needed_for


def compiled_kernel(name: str, source: str) -> Callable[..., None]:
    """A kernel that Inductor wrote, compiled, as a function of its arguments without the stream.

    Inductor calls every kernel 'triton_' where unique names are off.

    Raises:
        RuntimeError: The source does not compile here.
    """
    with needed_for("running saved kernels"):
        from torch._C import _cuda_getCurrentRawStream as current_stream
        from torch._inductor.async_compile import AsyncCompile

    import torch

    def compiled(word: str) -> Any:
        found = AsyncCompile().triton(word, source, device_str="cuda")
        return found.result() if hasattr(found, "result") else found

    try:
        kernel = compiled(name)
    except Exception as first:  # whatever compiling another's source raises
        try:
            kernel = compiled("triton_")
        except Exception:
            raise RuntimeError(f"its source does not compile here: {first}") from first

    def run(*arguments: Any) -> None:
        kernel.run(*arguments, stream=current_stream(torch.cuda.current_device()))

    return run
