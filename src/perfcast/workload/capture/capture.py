"""A program run on symbolic tensors → the graph of everything that a device would be asked to do.

Nothing is allocated and nothing is computed: every tensor is a fake one that knows its shape. See
``recorder`` for what is written down, ``fold`` for how repeated layers are captured once.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from perfcast.core.graph import Graph, Node, Phase
from perfcast.core.operation import Operation
from perfcast.core.tensor import Category, Storage, Tensor
from perfcast.torch_internals.dynamo import defer_dynamo
from perfcast.torch_internals.eager import FakeTensorMode, tree_leaves
from perfcast.workload.capture.autocast import CudaAutocast
from perfcast.workload.capture.composite import AcceleratorCalls, run_backward
from perfcast.workload.capture.errors import capture_errors
from perfcast.workload.capture.fold import (
    NUM_CAPTURED,
    LayerRun,
    NotFoldableError,
    find_layer_runs,
    skipping_layers,
)
from perfcast.workload.capture.lists import ListsWrittenInPlace
from perfcast.workload.capture.recorder import Recorder
from perfcast.workload.capture.recording import Recording
from perfcast.workload.capture.unfold import unfold, unfold_micro_batches
from perfcast.workload.step import (
    OptimizerChoice,
    Program,
    Steps,
    build_optimizer,
    run_forward,
    run_forward_backward,
)


@dataclass(frozen=True)
class CaptureOptions:
    """How a program is captured.

    Attributes:
        training: Forward, backward and optimizer; else a forward without gradients.
        for_accelerator: Attention, dropout and grouped products are one operation each and autocast
            follows CUDA's lists; else the program is captured as this processor would run it.
        autocast_dtype: Lower precision of mixed-precision training; None runs in the module's own types.
        optimizer: Ignored unless training; 'none' leaves the optimizer out.
        num_micro_batches: Forwards and backwards before the optimizer steps.
        fold_layers: Capture a run of equal layers, and of micro-batches that do the same, once.
    """

    training: bool = True
    for_accelerator: bool = True
    autocast_dtype: torch.dtype | None = None
    optimizer: OptimizerChoice = field(default_factory=OptimizerChoice)
    num_micro_batches: int = 1
    fold_layers: bool = True


def capture(build: Callable[[], Program], options: CaptureOptions) -> tuple[Graph, Program]:
    """Build the program with fake tensors and capture one step of it.

    Args:
        build: Makes the module and its inputs; it runs under fake tensors, so any size is free.

    Returns:
        The graph and the program (its module holds fake parameters).

    Raises:
        CaptureError: The module raised, or its control flow depends on values.
    """
    defer_dynamo()
    with FakeTensorMode(allow_non_fake_inputs=True):
        program, recording = _record_least(build, options)
        if options.training and options.optimizer.name != "none":
            recording = _append_optimizer(recording, program, options.optimizer)
    return graph_of(recording, program), program


def graph_of(recording: Recording, program: Program) -> Graph:
    """A finished recording as a graph."""
    parameters = {id(p): p.numel() for p in program.module.parameters()}
    hidden = sum(int(getattr(part, "num_hidden_weights", 0)) for part in program.module.modules())
    return Graph(
        nodes=tuple(recording.nodes),
        operations=tuple(recording.operations),
        tensors=tuple(recording.tensors),
        storages=tuple(recording.storages),
        parameter_count=sum(parameters.values()) + hidden,
        notes=program.notes,
    )


# ---- forward and backward ----------------------------------------------------------------------


def build_symbolic(build: Callable[[], Program], options: CaptureOptions) -> Program:
    """The program, built under fake tensors.

    Raises:
        CaptureError: Building it raised.
    """
    with capture_errors("building the model"), _without_truncated_normal(), _quiet_data_pointers():
        program = build()
    program.module.train(options.training)
    return program


@contextmanager
def _quiet_data_pointers() -> Iterator[None]:
    """No warning where a library asks for the address of a tensor that has none, and goes on."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        yield


def _record_least(build: Callable[[], Program], options: CaptureOptions) -> tuple[Program, Recording]:
    """The recording from as few layers and micro-batches as prove the rest; all where none do."""
    repeats = options.training and options.num_micro_batches > NUM_CAPTURED
    ways = [
        (batches, layers) for batches in (True, False) for layers in (True, False) if repeats or not batches
    ]
    for folds_batches, folds_layers in ways if options.fold_layers else [(False, False)]:
        program = build_symbolic(build, options)  # afresh: another run may have changed its state
        runs = find_layer_runs(program.module) if folds_layers else []
        try:
            return program, _record_folded(program, options, runs, folds_batches)
        except NotFoldableError:
            continue
    raise AssertionError("a full recording is not folded")


def _record_folded(
    program: Program, options: CaptureOptions, runs: Sequence[LayerRun], folds_batches: bool
) -> Recording:
    """A recording of which runs of layers and the middle micro-batches were left out and are written out."""
    ran = replace(options, num_micro_batches=NUM_CAPTURED) if folds_batches else options
    with skipping_layers(program.module, runs):
        recording = record(program, ran)
    if runs:
        _drop_untouched_caches(recording)
    for run in runs:
        recording = unfold(recording, run)
    return unfold_micro_batches(recording, options.num_micro_batches) if folds_batches else recording


def record(
    program: Program,
    options: CaptureOptions,
    optimizer: Steps | None = None,
    held: Iterable[torch.Tensor] = (),
    context: AbstractContextManager[Any] | None = None,
) -> Recording:
    """One step of a program under fake tensors.

    Args:
        optimizer: Steps at the end, if given; its state exists before.
        held: Weights that exist besides the module's present parameters.
        context: Entered around the step, within all others: its function modes see calls first.
    """
    recorder = Recorder(program.module, options.for_accelerator)
    named = list(program.module.named_parameters(remove_duplicate=False))
    parameters = dict(
        zip([n for n, _ in named], recorder.register([p for _, p in named], Category.PARAMETER), strict=True)
    )
    recorder.register(held, Category.PARAMETER)
    recorder.register(program.module.buffers(), Category.BUFFER)
    _register_inputs(recorder, program)
    if optimizer is not None:
        _register_state(recorder, optimizer)
    gc_was_enabled = gc.isenabled()
    gc.disable()  # storages must die when the program lets go of them, not when a collection happens
    try:
        with ExitStack() as stack:
            stack.enter_context(capture_errors("running the model"))
            stack.enter_context(program.symbolic_context())
            stack.enter_context(_without_inference_shortcuts())
            stack.enter_context(_quiet_data_pointers())
            stack.enter_context(recorder.following_modules())
            stack.enter_context(recorder.following_resizes())
            stack.enter_context(recorder)
            if options.for_accelerator:
                stack.enter_context(AcceleratorCalls(recorder))
            stack.enter_context(context or nullcontext())
            if options.training:
                for _ in range(options.num_micro_batches):
                    _run_micro_batch(program, recorder, options)
            else:
                _run_inference(program, recorder, options)
            gradients = _note_gradients(recorder, named)
            if optimizer is not None:
                recorder.announce(Phase.OPTIMIZER)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
        recorder.forget_references()
    finally:
        if gc_was_enabled:
            gc.enable()
    for _, parameter in named:
        parameter.grad = None
    storages = _categorize_activations(recorder.storages, recorder.nodes)
    return Recording(recorder.nodes, recorder.operations, recorder.tensors, storages, parameters, gradients)


def _note_gradients(recorder: Recorder, named: list[tuple[str, torch.nn.Parameter]]) -> dict[str, int]:
    gradients = {n: recorder.storage_of(p.grad) for n, p in named if p.grad is not None}
    for storage in gradients.values():
        recorder.recategorize(storage, Category.GRADIENT)
    return gradients


def _register_state(recorder: Recorder, optimizer: Steps) -> None:
    for state in optimizer.state.values():
        tensors = [value for value in state.values() if isinstance(value, torch.Tensor)]
        recorder.register(tensors, Category.OPTIMIZER_STATE)


def _run_micro_batch(program: Program, recorder: Recorder, options: CaptureOptions) -> None:
    with _autocast(options) as end_forward:

        def on_phase(phase: Phase) -> None:
            if phase is Phase.BACKWARD:
                end_forward()
            recorder.announce(phase)

        run_forward_backward(program, on_phase, run_backward)


def _run_inference(program: Program, recorder: Recorder, options: CaptureOptions) -> None:
    with _autocast(options):
        output = run_forward(program)
    for tensor in cache_tensors(getattr(output, "past_key_values", None)):
        recorder.recategorize(recorder.storage_of(tensor), Category.KV_CACHE)
    del output


@contextmanager
def _autocast(options: CaptureOptions) -> Iterator[Callable[[], None]]:
    """Mixed precision, if any; gives what is to be called when the forward ends."""
    if options.autocast_dtype is None:
        yield lambda: None
    elif options.for_accelerator:
        with CudaAutocast(options.autocast_dtype) as mode:
            yield mode.end_forward
    else:
        with torch.autocast("cpu", options.autocast_dtype):
            yield torch.clear_autocast_cache


def _register_inputs(recorder: Recorder, program: Program) -> None:
    caches: list[torch.Tensor] = []
    for value in (*program.args, *program.kwargs.values()):
        caches.extend(cache_tensors(value))
        leaves = tree_leaves(value)
        recorder.register([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)], Category.INPUT)
    recorder.register(caches, Category.KV_CACHE)


def cache_tensors(cache: Any) -> list[torch.Tensor]:
    """Keys and values that a Hugging Face cache holds (an encoder-decoder's holds two caches)."""
    parts = [
        cache,
        getattr(cache, "self_attention_cache", None),
        getattr(cache, "cross_attention_cache", None),
    ]
    layers = [layer for part in parts for layer in (getattr(part, "layers", None) or [])]
    values = [getattr(layer, name, None) for layer in layers for name in ("keys", "values")]
    return [value for value in values if isinstance(value, torch.Tensor)]


def _drop_untouched_caches(recording: Recording) -> None:
    """Caches of skipped layers are written out with the layers."""
    touched = {
        recording.tensors[t].storage for node in recording.nodes for t in (*node.inputs, *node.outputs)
    }
    for index, storage in enumerate(recording.storages):
        if storage.category == Category.KV_CACHE and index not in touched:
            recording.storages[index] = replace(storage, num_bytes=0)


def _categorize_activations(storages: list[Storage], nodes: list[Node]) -> list[Storage]:
    """Made in a forward (or recomputed) and alive when it ends: an activation; else a temporary."""
    forward_end: dict[int, int] = {}
    end = len(nodes)
    for index in range(len(nodes) - 1, -1, -1):
        if nodes[index].phase is not Phase.FORWARD:
            end = index
        forward_end[index] = end
    result = []
    for storage in storages:
        category = storage.category
        if category == Category.TEMPORARY and storage.created_by >= 0:
            node = nodes[storage.created_by]
            freed = len(nodes) if storage.freed_after is None else storage.freed_after
            is_saved = node.phase is Phase.FORWARD and freed >= forward_end[storage.created_by]
            if is_saved or node.recomputed:
                category = Category.ACTIVATION
        result.append(replace(storage, category=category))
    return result


# ---- optimizer ---------------------------------------------------------------------------------


def _append_optimizer(recording: Recording, program: Program, choice: OptimizerChoice) -> Recording:
    """One step of the optimizer over all parameters, in steady state (its state exists before)."""
    module = program.module
    optimizer = build_optimizer(choice, module)
    for name, parameter in module.named_parameters():
        if name in recording.gradients:
            parameter.grad = torch.empty_like(parameter)
    with ListsWrittenInPlace():
        optimizer.step()
    recorder = Recorder(module)
    recorder.announce(Phase.OPTIMIZER)
    merged = _Merge(recording)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        (storage,) = recorder.register([parameter], Category.PARAMETER)
        merged.same(storage, recording.parameters[name])
        if parameter.grad is not None:
            (storage,) = recorder.register([parameter.grad], Category.GRADIENT)
            merged.same(storage, recording.gradients[name])
    _register_state(recorder, optimizer)
    with ListsWrittenInPlace(), recorder:
        optimizer.step()
    recorder.forget_references()
    module.zero_grad(set_to_none=True)
    return merged.append(recorder)


class _Merge:
    """Appends one recorder's nodes to a recording, storages that are the same identified."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._same: dict[int, int] = {}

    def same(self, storage: int, in_recording: int) -> None:
        self._same[storage] = in_recording

    def append(self, recorder: Recorder) -> Recording:
        base = self._recording
        shift = len(base.nodes)
        storages = list(base.storages)
        for index, storage in enumerate(recorder.storages):
            if index not in self._same:
                self._same[index] = len(storages)
                storages.append(
                    replace(
                        storage,
                        created_by=storage.created_by + shift if storage.created_by >= 0 else -1,
                        freed_after=None if storage.freed_after is None else storage.freed_after + shift,
                    )
                )
        tensors = base.tensors + [Tensor(t.type, self._same[t.storage]) for t in recorder.tensors]
        operations: list[Operation] = base.operations + recorder.operations
        nodes = base.nodes + [
            replace(
                node,
                operation=node.operation + len(base.operations),
                inputs=tuple(t + len(base.tensors) for t in node.inputs),
                outputs=tuple(t + len(base.tensors) for t in node.outputs),
            )
            for node in recorder.nodes
        ]
        return Recording(nodes, operations, tensors, storages, base.parameters, base.gradients)


@contextmanager
def _without_inference_shortcuts() -> Iterator[None]:
    """PyTorch's transformer layers have one opaque kernel for inference; their own operators say more."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def _without_truncated_normal() -> Iterator[None]:
    """PyTorch's truncated normal draws again until values are in range, which symbolic ones never are."""
    init: Any = torch.nn.init
    original = init._no_grad_trunc_normal_

    def leave(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return tensor

    init._no_grad_trunc_normal_ = leave
    try:
        yield
    finally:
        init._no_grad_trunc_normal_ = original
