"""Layers that repeat are run four times and written out as often as the model has them.

A run of N equal layers is captured with its first two and its last two; the others let their input
pass. The recording then holds, for each of the four, the stretch of nodes of every pass (a forward or
a backward). If the stretches of the second and of the last but one are equal, every reference taken
relative to the layer it belongs to (inputs, outputs, storages, the moment at which each storage is
freed), then each layer between them would have recorded the same once more: the second stretch is
repeated N - 4 times. If they are not equal, the model is captured in full.

Micro-batches of a step that accumulates gradients are four times run and written out in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from perfcast.torch_internals.eager import current_autograd_node

#: Units that are run: the first two and the last two.
NUM_CAPTURED = 4
_MIN_UNITS = 6
_INDEX_WORDS = ("idx", "index", "layer_id", "layer_number")


class NotFoldableError(Exception):
    """The layers turned out not to pass a value from one to the next unchanged."""


@dataclass(frozen=True)
class LayerRun:
    """Consecutive equal layers of one container.

    Attributes:
        container: Path of the ModuleList or Sequential.
        first: Index of the first layer.
        period: Layers that repeat together (a pattern such as five local, one global).
        num_units: How often the pattern repeats.
    """

    container: str
    first: int
    period: int
    num_units: int

    def unit_of(self, layer: int) -> int | None:
        """Unit that a layer index belongs to, or None."""
        offset = layer - self.first
        return offset // self.period if 0 <= offset < self.period * self.num_units else None

    @property
    def captured_units(self) -> tuple[int, int, int, int]:
        """The first two and the last two."""
        return 0, 1, self.num_units - 2, self.num_units - 1


def find_layer_runs(root: nn.Module) -> list[LayerRun]:
    """The longest run of equal layers in every container that is not inside another run.

    Layers are equal if class, attributes, parameters, buffers and children are; a layer that shares a
    parameter with another is not.
    """
    runs: list[LayerRun] = []
    shared = _shared_parameters(root)
    config = getattr(root, "config", None)
    for path, module in root.named_modules():
        if not isinstance(module, nn.ModuleList | nn.Sequential) or len(module) < _MIN_UNITS:
            continue
        if any(path.startswith(f"{run.container}.") for run in runs):
            continue
        if any(p in shared for p in map(id, module.parameters())):
            continue
        signatures = [
            (_signature(layer), _config_items(config, i, len(module))) for i, layer in enumerate(module)
        ]
        run = _longest_run(path, signatures)
        if run is not None:
            runs.append(run)
    return runs


def _longest_run(path: str, signatures: list[Any]) -> LayerRun | None:
    best: LayerRun | None = None
    count = len(signatures)
    for period in range(1, count // _MIN_UNITS + 1):
        start = 0
        while start + period < count:
            end = start + period
            while end < count and signatures[end] == signatures[end - period]:
                end += 1
            units = (end - start) // period
            saved = (units - NUM_CAPTURED) * period
            if units >= _MIN_UNITS and (
                best is None or saved > (best.num_units - NUM_CAPTURED) * best.period
            ):
                best = LayerRun(path, start, period, units)
            start = max(start + 1, end - period + 1)
    return best


def _shared_parameters(root: nn.Module) -> set[int]:
    seen: set[int] = set()
    shared: set[int] = set()
    for _, parameter in root.named_parameters(remove_duplicate=False):
        (shared if id(parameter) in seen else seen).add(id(parameter))
    return shared


def _config_items(config: Any, index: int, count: int) -> Any:
    """Elements of per-layer lists of a Hugging Face config (``layer_types``), which a layer may look up."""
    items = vars(config).items() if config is not None and hasattr(config, "__dict__") else ()
    return tuple((k, repr(v[index])) for k, v in items if isinstance(v, list | tuple) and len(v) == count)


def _signature(module: nn.Module) -> Any:
    return (
        type(module),
        module.training,
        tuple(_plain_attributes(module)),
        tuple(
            (name, tuple(p.shape), p.dtype, p.requires_grad)
            for name, p in module._parameters.items()
            if p is not None
        ),
        tuple((name, tuple(b.shape), b.dtype) for name, b in module._buffers.items() if b is not None),
        len(module._forward_hooks) + len(module._forward_pre_hooks) + len(module._backward_hooks),
        tuple((name, _signature(child)) for name, child in module._modules.items() if child is not None),
    )


def _plain_attributes(module: nn.Module) -> Iterator[tuple[str, Any]]:
    for name, value in sorted(vars(module).items()):
        if name.startswith("_") or name == "training" or any(word in name for word in _INDEX_WORDS):
            continue
        if isinstance(value, int | float | str | bool | torch.dtype | None):
            yield name, value
        elif isinstance(value, list | tuple | dict):
            yield name, repr(value)
        elif callable(value):
            yield name, getattr(value, "__qualname__", type(value).__qualname__)
        else:
            yield name, type(value).__qualname__


class _PassThrough(nn.Module):
    """Stands for a skipped layer: hands on what the layer before it returned."""

    def __init__(self, layer: nn.Module, last_output: list[Any]) -> None:
        super().__init__()
        # Not as a child: the skipped layer's parameters are written out with its nodes.
        object.__setattr__(self, "_layer", layer)
        self._last_output = last_output

    def __getattr__(self, name: str) -> Any:
        """What a model asks of its layer (``layer.attention_type``) the layer itself answers."""
        return getattr(self.__dict__["_layer"], name)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = self._last_output[0]
        handed_on = output[0] if isinstance(output, tuple | list) else output
        if not any(value is handed_on for value in (*args, *kwargs.values())):
            raise NotFoldableError("a layer does not take its predecessor's output")
        return output


@contextmanager
def skipping_layers(root: nn.Module, runs: Sequence[LayerRun]) -> Iterator[None]:
    """Inside, only the captured units of each run compute; the module is restored afterwards."""
    handles: list[Any] = []
    replaced: list[tuple[Any, dict[str, nn.Module]]] = []
    try:
        for run in runs:
            container: Any = root.get_submodule(run.container)
            layers: list[nn.Module] = list(container)
            names = list(container._modules)
            replaced.append((container, dict(container._modules)))
            last_output: list[Any] = [None]
            captured = run.captured_units
            for index in range(run.first, run.first + run.period * run.num_units):
                if run.unit_of(index) not in captured:
                    container._modules[names[index]] = _PassThrough(layers[index], last_output)
            before_gap = layers[run.first + 2 * run.period - 1]
            after_gap = layers[run.first + (run.num_units - 2) * run.period]
            handles.append(before_gap.register_forward_hook(_keeper(last_output)))
            handles.append(after_gap.register_forward_pre_hook(_dropper(last_output)))
        yield
    finally:
        for handle in handles:
            handle.remove()
        for container, modules in replaced:
            container._modules.clear()
            container._modules.update(modules)


def _keeper(slot: list[Any]) -> Callable[[nn.Module, Any, Any], None]:
    def keep(module: nn.Module, args: Any, output: Any) -> None:
        if current_autograd_node() is None:  # not when checkpointing runs it again
            slot[0] = output

    return keep


def _dropper(slot: list[Any]) -> Callable[[nn.Module, Any], None]:
    def drop(module: nn.Module, args: Any) -> None:
        slot[0] = None

    return drop
