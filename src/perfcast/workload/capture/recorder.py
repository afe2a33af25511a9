"""Watches a program run and writes down every operation, tensor and storage.

Runs below autograd and above fake tensors, so it sees what a device would be asked to do: forward,
backward and optimizer operators, with the module that asked for each. Storages are followed by weak
references: what is recorded as freed is what the program really let go of, and when.
"""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as nn_module

from perfcast.core.dtype import DType
from perfcast.core.graph import Node, Phase
from perfcast.core.operation import Operation
from perfcast.core.tensor import Category, Storage, Tensor, TensorType
from perfcast.torch_internals.eager import (
    TorchDispatchMode,
    active_fake_mode,
    current_autograd_node,
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
    next_sequence_number,
)
from perfcast.workload.capture.accelerator_operands import operands_of, written_as
from perfcast.workload.capture.code_line import CodeLines
from perfcast.workload.capture.types import tensor_type
from perfcast.workload.parallel_program.collectives import Collective, collective_of
from perfcast.workload.rules import OperatorCall, operation_of

#: Calls that never reach a device.
_HOST_ONLY = ("prim", "profiler")
#: Operators that write into an argument although their schema does not say so.
_WRITES_UNSAID = ("fsdp::all_gather_copy_in",)
_ACCUMULATE_GRAD_SEQUENCE = 2**63


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records nodes, tensors and storages of whatever runs inside ``with recorder:``.

    Attributes:
        nodes, operations, tensors, storages: As in ``Graph``; storages are final after ``finish``.
        phase: Phase that the next node belongs to; the program announces it.
    """

    def __init__(self, root: nn.Module, for_accelerator: bool = False) -> None:
        """Watch what modules below ``root`` run; ``for_accelerator`` as its kernels, not this processor's."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._for_accelerator = for_accelerator
        self.nodes: list[Node] = []
        self.operations: list[Operation] = []
        self.tensors: list[Tensor] = []
        self.phase = Phase.FORWARD
        self._module_names = {id(module): name for name, module in root.named_modules()}
        self._parameter_paths = {id(p): name.rpartition(".")[0] for name, p in root.named_parameters()}
        self._module_stack: list[str] = [""]
        # Autograd numbers its nodes in order; these two lists map a number to the module it came from.
        self._sequence_starts: list[int] = [0]
        self._sequence_modules: list[str] = [""]
        self._lines = CodeLines()
        self._operation_indices: dict[Any, int] = {}
        self._tensor_indices: dict[tuple[int, TensorType], int] = {}
        self._types: dict[Any, TensorType] = {}
        self._storage_bytes: list[int] = []
        self._storage_category: list[str] = []
        self._storage_created_by: list[int] = []
        self._storage_freed_after: list[int | None] = []
        self._storage_created_at: list[str] = []
        self._live_storages: dict[int, int] = {}
        self._references: dict[int, Any] = {}
        self._is_paused = False
        self._fake_mode = active_fake_mode()
        # What the program did since the last node without a node of its own: (views, module calls).
        self._unseen = (0, 0)

    # ---- what the program tells -------------------------------------------------------------

    def announce(self, phase: Phase) -> None:
        """The next nodes belong to ``phase``."""
        self.phase = phase

    def register(self, tensors: Iterable[torch.Tensor], category: str) -> list[int]:
        """Declare tensors that exist before the step; returns their storages' indices."""
        return [self._register(tensor, category) for tensor in tensors]

    def _register(self, tensor: torch.Tensor, category: str) -> int:
        """Index of the storage of a tensor; of the first part of a distributed or wrapped one."""
        first, *_ = [self._storage_index(part, -1, category) for part in _parts_of(tensor)]
        return first

    def recategorize(self, storage: int, category: str) -> None:
        """Say what a storage turned out to be (a gradient)."""
        self._storage_category[storage] = category

    def storage_of(self, tensor: torch.Tensor) -> int:
        """Index of a live tensor's storage."""
        return self._register(tensor, Category.BUFFER)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing inside is recorded."""
        before, self._is_paused = self._is_paused, True
        try:
            yield
        finally:
            self._is_paused = before

    @contextmanager
    def following_modules(self) -> Iterator[None]:
        """Keep track of the module that is running, by hooks on every module call."""
        handles = (
            nn_module.register_module_forward_pre_hook(self._enter_module),
            nn_module.register_module_forward_hook(self._leave_module, always_call=True),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    @property
    def storages(self) -> list[Storage]:
        """All storages seen so far."""
        columns = zip(
            self._storage_bytes,
            self._storage_category,
            self._storage_created_by,
            self._storage_freed_after,
            self._storage_created_at,
            strict=True,
        )
        return [Storage(*column) for column in columns]

    # ---- modules ----------------------------------------------------------------------------

    def _enter_module(self, module: nn.Module, args: Any) -> None:
        views, calls = self._unseen
        self._unseen = views, calls + 1
        self._push(self._module_names.get(id(module), self._module_stack[-1]))

    def _leave_module(self, module: nn.Module, args: Any, output: Any) -> None:
        if len(self._module_stack) > 1:
            self._module_stack.pop()
            self._mark_sequence()

    def _push(self, path: str) -> None:
        self._module_stack.append(path)
        self._mark_sequence()

    def _mark_sequence(self) -> None:
        self._sequence_starts.append(next_sequence_number())
        self._sequence_modules.append(self._module_stack[-1])

    def _locate(self) -> tuple[str, bool]:
        """(module path, whether recomputed) of what runs now."""
        if self.phase is not Phase.BACKWARD:
            return self._module_stack[-1], False
        if self._runs_forward():
            return self._module_stack[-1], True
        node = current_autograd_node()
        if node is None:
            return "", False
        sequence = node._sequence_nr()
        if sequence >= _ACCUMULATE_GRAD_SEQUENCE:
            variable = getattr(node, "variable", None)
            return self._parameter_paths.get(id(variable), ""), False
        return self._sequence_modules[bisect_right(self._sequence_starts, sequence) - 1], False

    def _runs_forward(self) -> bool:
        """Within the backward phase: whether a forward runs again.

        Only a forward runs modules or has grad mode on, which a custom function's forward has not.
        """
        return torch.is_grad_enabled() or len(self._module_stack) > 1

    def _line(self) -> str:
        """The program's line that runs now, or the line of the forward that a backward belongs to."""
        if self.phase is Phase.BACKWARD and not self._runs_forward():
            node = current_autograd_node()
            return "" if node is None else self._lines.of_backward(node._sequence_nr())
        line = self._lines.running()
        self._lines.mark(next_sequence_number(), line)
        return line

    # ---- operations -------------------------------------------------------------------------

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if any(is_traceable_wrapper_subclass_type(kind) for kind in types):
            return NotImplemented  # a distributed tensor first becomes operators on this rank's part
        if func is torch.ops._c10d_functional.wait_tensor.default:
            return args[0]  # a real one returns its argument, a symbolic one a new tensor
        kwargs = kwargs or {}
        if self._for_accelerator:
            args = operands_of(func, args, partial(self.__torch_dispatch__, types=types))
        out = func(*args, **kwargs)
        if self._for_accelerator:
            out = written_as(func, args, out)
        # What runs under other fake tensors is shape propagation of distributed tensors.
        if self._is_paused or func.namespace in _HOST_ONLY or active_fake_mode() is not self._fake_mode:
            return out
        collective = collective_of(func, args, kwargs, out)
        if collective is not None:
            self._record_collective(collective)
        else:
            mutates = func._schema.is_mutable or func._schema.name in _WRITES_UNSAID
            self.record(func.name().partition("::")[2], args, kwargs, out, mutates)
        return out

    def _record_collective(self, collective: Collective) -> None:
        self.record(collective.name, collective.sent, collective.facts, collective.received, mutates=True)

    def record(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, mutates: bool = False
    ) -> None:
        """Write down one operation, unless it only makes a view of what is there."""
        outputs: list[torch.Tensor] = []
        _collect(out, outputs)
        inputs: list[torch.Tensor] = []
        for value in args:
            _collect(value, inputs)
        for value in kwargs.values():
            _collect(value, inputs)
        line = self._line()
        is_new = any(id(t.untyped_storage()) not in self._live_storages for t in outputs)
        if not is_new and not mutates:
            views, calls = self._unseen
            self._unseen = views + 1, calls
            return
        index = len(self.nodes)
        input_indices = tuple(self._tensor_index(t, -1, Category.INPUT) for t in inputs)
        if mutates:
            for tensor in outputs:
                self._forget_if_resized(tensor.untyped_storage())
        output_indices = tuple(self._tensor_index(t, index, Category.TEMPORARY, line) for t in outputs)
        module, recomputed = self._locate()
        operation = self._operation_index(name, args, kwargs, outputs)
        self._append_node(operation, module, input_indices, output_indices, recomputed)

    def _append_node(
        self, operation: int, module: str, inputs: tuple[int, ...], outputs: tuple[int, ...], recomputed: bool
    ) -> None:
        views, calls = self._unseen
        self._unseen = 0, 0
        node = Node(operation, self.phase, module, inputs, outputs, recomputed, 0, views, calls)
        self.nodes.append(node)

    def _operation_index(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: list[torch.Tensor]
    ) -> int:
        plain_args = self._plain(args)
        plain_kwargs = tuple((key, self._plain(value)) for key, value in kwargs.items())
        return self._index_of_call(name, plain_args, plain_kwargs, tuple(self._type(t) for t in outputs))

    def _index_of_call(
        self, name: str, args: Any, kwargs: tuple[tuple[str, Any], ...], outputs: tuple[TensorType, ...]
    ) -> int:
        key = (name, args, kwargs, outputs)
        index = self._operation_indices.get(key)
        if index is None:
            index = self._operation_indices[key] = len(self.operations)
            self.operations.append(operation_of(OperatorCall(name, args, dict(kwargs), outputs)))
        return index

    def _plain(self, value: Any) -> Any:
        """The value with tensors replaced by their types, hashable."""
        if isinstance(value, torch.Tensor):
            parts = _parts_of(value)
            return self._type(value) if parts[0] is value else tuple(self._type(part) for part in parts)
        if isinstance(value, list | tuple):
            return tuple(self._plain(v) for v in value)
        if isinstance(value, int | float | bool | str | None):
            return value
        return str(value)

    def _type(self, tensor: torch.Tensor) -> TensorType:
        key = (tensor.shape, tensor.dtype, tensor.stride())
        known = self._types.get(key)
        if known is None:
            known = self._types[key] = tensor_type(tensor)
        return known

    # ---- tensors and storages ---------------------------------------------------------------

    def _tensor_index(
        self, tensor: torch.Tensor, created_by: int, category: str, created_at: str = ""
    ) -> int:
        key = (self._storage_index(tensor, created_by, category, created_at), self._type(tensor))
        index = self._tensor_indices.get(key)
        if index is None:
            index = self._tensor_indices[key] = len(self.tensors)
            self.tensors.append(Tensor(key[1], key[0]))
        return index

    def _storage_index(
        self, tensor: torch.Tensor, created_by: int, category: str, created_at: str = ""
    ) -> int:
        storage = tensor.untyped_storage()
        index = self._live_storages.get(id(storage))
        if index is None:
            index = self._add_storage(storage, created_by, category, created_at)
        return index

    def _add_storage(
        self, storage: torch.UntypedStorage, created_by: int, category: str, created_at: str
    ) -> int:
        index = self._live_storages[id(storage)] = len(self._storage_bytes)
        self._storage_bytes.append(storage.nbytes())
        self._storage_category.append(category)
        self._storage_created_by.append(created_by)
        self._storage_freed_after.append(None)
        self._storage_created_at.append(created_at)
        self._references[index] = weakref.ref(storage, partial(self._free, id(storage), index))
        return index

    @contextmanager
    def following_resizes(self) -> Iterator[None]:
        """Notice storages that change their size, which no operator tells of."""
        own = "resize_" in vars(torch.UntypedStorage)
        original = torch.UntypedStorage.resize_

        def resize(storage: torch.UntypedStorage, size: int) -> None:
            original(storage, size)
            self._note_size(storage)

        torch.UntypedStorage.resize_ = resize  # type: ignore[assignment, method-assign]
        try:
            yield
        finally:
            if own:
                torch.UntypedStorage.resize_ = original  # type: ignore[method-assign]
            else:
                del torch.UntypedStorage.resize_

    def _forget_if_resized(self, storage: torch.UntypedStorage) -> None:
        """An operator that resizes its output allocates it anew."""
        index = self._live_storages.get(id(storage))
        if index is not None and self._storage_bytes[index] != storage.nbytes():
            self._free(id(storage), index, None)

    def _note_size(self, storage: torch.UntypedStorage) -> None:
        """What a storage of another size held before ends here, and an allocation makes what it holds now."""
        index, num_bytes = self._live_storages.get(id(storage)), storage.nbytes()
        if num_bytes == (0 if index is None else self._storage_bytes[index]):
            return
        category = Category.TEMPORARY
        if index is not None:
            category = self._storage_category[index]
            self._free(id(storage), index, None)
        node = len(self.nodes)
        if num_bytes == 0:
            self._add_storage(storage, node - 1, category, "")
            return
        held = TensorType((num_bytes,), DType.UINT8, (1,))
        module, recomputed = self._locate()
        index = self._add_storage(storage, node, category, self._line())
        self._tensor_indices[index, held] = len(self.tensors)
        self.tensors.append(Tensor(held, index))
        operation = self._index_of_call("resize_", (), (), (held,))
        self._append_node(operation, module, (), (len(self.tensors) - 1,), recomputed)

    def _free(self, key: int, index: int, reference: Any) -> None:
        self._storage_freed_after[index] = len(self.nodes) - 1
        self._live_storages.pop(key, None)
        self._references.pop(index, None)

    def forget_references(self) -> None:
        """Stop following storages; what is alive now outlives the step."""
        self._references.clear()
        self._live_storages.clear()


def _parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The plain tensors that a tensor consists of: itself, or what a distributed one holds on this rank."""
    if not is_traceable_wrapper_subclass(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()
    inner = [getattr(tensor, name) for name in names]
    return [part for value in inner if isinstance(value, torch.Tensor) for part in _parts_of(value)]


def _collect(value: Any, found: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        found.extend(_parts_of(value))
    elif isinstance(value, list | tuple):
        for item in value:
            _collect(item, found)
