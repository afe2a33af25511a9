"""``DistributedDataParallel``'s reducer, written in Python so that it can be captured.

PyTorch's own is in C++ and reads memory that a symbolic tensor has not. The module around it stays PyTorch's:
it decides when gradients are reduced (``no_sync``) and broadcasts buffers. The same is done here as there
(torch/csrc/distributed/c10d/reducer.cpp): gradients are scaled into buckets in the order in which they became
ready in the first step, the first bucket of 1 MiB and the others of 25 MiB unless the program says otherwise;
a bucket is reduced, asynchronously, when it and all before it are full; the end of the backward waits for all
of them and copies the gradients back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn

from perfcast.errors import CaptureError
from perfcast.torch_internals import replaced
from perfcast.torch_internals.distributed import c10d
from perfcast.torch_internals.eager import after_backward


@dataclass
class _Bucket:
    """Gradients that are reduced together.

    Attributes:
        indices: Of parameters, in the order of the buffer.
        views: Of the buffer, one for each.
        num_missing: Gradients of this backward that are not in it yet.
    """

    indices: list[int]
    buffer: Tensor
    views: list[Tensor]
    num_missing: int = 0
    work: Any = None


class Reducer:
    """What ``torch.distributed.Reducer`` does, seen by a capture.

    Arguments are that one's: those after ``use_python_reducer`` came with torch 2.12, 2.15 and later.
    """

    def __init__(
        self,
        params: list[nn.Parameter],
        bucket_indices: list[list[int]],
        per_bucket_size_limits: list[int],
        process_group: Any,
        expect_sparse_gradients: Sequence[bool] = (),
        bucket_bytes_cap: int = 0,
        find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False,
        param_to_name_mapping: dict[int, str] | None = None,
        first_bucket_bytes_cap: int = 0,
        skip_all_reduce_unused_params: bool = False,
        use_python_reducer: bool = False,
        bucket_bytes_cap_list: Sequence[int] = (),
        batched_grad_copy: bool = False,
        lazy_bucket_allocation: bool = False,
        *later_options: Any,
    ) -> None:
        if lazy_bucket_allocation or any(later_options):
            raise CaptureError(
                "DistributedDataParallel with lazy_bucket_allocation (or a newer option) is not captured"
            )
        self._params, self._group = params, process_group
        self._limits = list(bucket_bytes_cap_list) or sorted({first_bucket_bytes_cap, bucket_bytes_cap})
        self._finds_unused, self._keeps_views = find_unused_parameters, gradient_as_bucket_view
        self._is_static = False
        self._ready: list[int] = []
        self._is_rebuilt, self._expects_gradients = False, False
        self._unused: list[int] = []
        self._next_bucket = 0
        self._buckets = self._allocate(bucket_indices)
        self._place = {index: bucket for bucket in self._buckets for index in bucket.indices}
        for index, parameter in enumerate(params):
            watched: Any = parameter
            watched.register_post_accumulate_grad_hook(lambda _, index=index: self._on_gradient(index))

    def _allocate(self, bucket_indices: list[list[int]]) -> list[_Bucket]:
        buckets = []
        for indices in bucket_indices:
            parameters = [self._params[index] for index in indices]
            buffer = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype)
            parts = torch.split(buffer, [p.numel() for p in parameters])
            views = [part.view(p.shape) for part, p in zip(parts, parameters, strict=True)]
            buckets.append(_Bucket(indices, buffer, views))
        return buckets

    # ---- what the module calls --------------------------------------------------------------

    def prepare_for_forward(self) -> None:
        """Nothing: it counts iterations."""

    def _rebuild_buckets(self) -> bool:
        """After the first backward: buckets in the order in which gradients became ready."""
        may = self._is_static or not self._finds_unused
        if self._is_rebuilt or not may or len(self._ready) < len(self._params):
            return False
        indices, _ = c10d._compute_bucket_assignment_by_size(
            [self._params[index] for index in self._ready], self._limits, [], self._ready
        )
        self._buckets = self._allocate(indices)
        self._place = {index: bucket for bucket in self._buckets for index in bucket.indices}
        self._is_rebuilt = True
        return True

    def prepare_for_backward(self, outputs: list[Tensor]) -> None:
        """The next backward reduces gradients; parameters that the outputs do not depend on give none."""
        self._expects_gradients, self._next_bucket = True, 0
        self._unused = self._unused_by(outputs) if outputs else []
        for bucket in self._buckets:
            bucket.num_missing, bucket.work = len(bucket.indices), None

    def set_logger(self, logger: Any) -> None:
        """Nothing: there is no log."""

    def _set_static_graph(self) -> None:
        self._is_static = True

    def _delay_all_reduce(self) -> None:
        """Of the first iteration of a static graph, which is not seen: all buckets at its end."""

    def _remove_autograd_hooks(self) -> None:
        self._expects_gradients = False

    def __getattr__(self, name: str) -> Any:
        raise CaptureError(f"DistributedDataParallel's {name} is not captured")

    # ---- a backward -------------------------------------------------------------------------

    def _on_gradient(self, index: int) -> None:
        if not self._expects_gradients:
            return
        with torch.no_grad():
            unused, self._unused = self._unused, []
            for other in unused:
                self._mark_ready(other)
            if not self._is_rebuilt and index not in self._ready:
                self._ready.append(index)
            self._mark_ready(index)

    def _mark_ready(self, index: int) -> None:
        bucket = self._place[index]
        view, gradient = bucket.views[bucket.indices.index(index)], self._params[index].grad
        if gradient is None:
            view.zero_()
        elif gradient is not view:
            torch.mul(gradient, 1 / self._group.size(), out=view)
            if self._keeps_views:
                self._params[index].grad = view
        else:
            view.div_(self._group.size())
        bucket.num_missing -= 1
        while self._next_bucket < len(self._buckets) and not self._buckets[self._next_bucket].num_missing:
            full = self._buckets[self._next_bucket]
            full.work = self._group.allreduce([full.buffer])
            self._next_bucket += 1
            if self._next_bucket == len(self._buckets):
                self._expects_gradients = False
                self._reduce_usage()
                after_backward(self._finish)

    def _reduce_usage(self) -> None:
        """Which parameters any rank used, where those that none used are to be found."""
        if self._finds_unused and not self._is_static:
            self._group.allreduce([torch.zeros(len(self._params), dtype=torch.int32)])

    def _finish(self) -> None:
        with torch.no_grad():
            for bucket in self._buckets:
                bucket.work.wait()
                if self._keeps_views:
                    continue
                for index, view in zip(bucket.indices, bucket.views, strict=True):
                    gradient = self._params[index].grad
                    if gradient is not None:
                        gradient.copy_(view)

    def _unused_by(self, outputs: list[Tensor]) -> list[int]:
        """Parameters that no output depends on."""
        waiting: list[Any] = [tensor.grad_fn for tensor in outputs]
        seen, used = set[Any](), set[int]()
        while waiting:
            node = waiting.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if hasattr(node, "variable"):
                used.add(id(node.variable))
            waiting.extend(following for following, _ in node.next_functions)
        return [index for index, parameter in enumerate(self._params) if id(parameter) not in used]


class _Logger:
    """``torch.distributed.Logger``, which measures what is not there."""

    def __init__(self, reducer: Reducer) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


@contextmanager
def captured_replicas() -> Iterator[None]:
    """``DistributedDataParallel`` has the reducer above inside."""

    def refuse(*args: Any) -> None:
        raise CaptureError("DistributedDataParallel with a communication hook is not captured")

    with ExitStack() as stack:
        for name, value in (
            ("Reducer", Reducer),
            ("Logger", _Logger),
            ("_verify_params_across_processes", lambda *args: None),
            ("_register_comm_hook", refuse),
            ("_register_builtin_comm_hook", refuse),
        ):
            stack.enter_context(replaced(distributed, name, value))
        yield
