"""Programs from a Python file that the user names: ``path/to/file.py:function``."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from perfcast.errors import InputError, ModelError, UnknownNameError
from perfcast.files.reading import read_bytes
from perfcast.printer.streams import streams_of_others
from perfcast.torch_internals.eager import tree_map_only
from perfcast.workload.models.tuned.tune import tune_module
from perfcast.workload.models.weights import cast_weights, caster
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program


def load_function(reference: str) -> Callable[..., Any]:
    """The function that ``file.py:function`` names; the file is executed, since the user named it.

    Raises:
        ModelError: No such file, or the file fails; UnknownNameError: no such function in it.
    """
    file, _, function = reference.rpartition(":")
    path = Path(file)
    read_bytes(path, what="the program", error=ModelError)  # a file, and one that ends
    spec = importlib.util.spec_from_file_location(f"perfcast_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with streams_of_others():
            spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too
        raise ModelError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.pop(0)
    found = getattr(module, function, None)
    if not callable(found):
        raise UnknownNameError(
            f"function of {file}", function, [n for n in vars(module) if not n.startswith("_")]
        )
    return found  # type: ignore[no-any-return]


def build_user_program(function: Callable[..., Any], shape: StepShape) -> Program:
    """Call the user's function and understand what it returns; weights follow the shape's precision.

    It may take ``batch_size``, ``sequence_length`` and ``image_size`` and returns ``(module, inputs)`` or
    ``(module, inputs, loss)``: inputs are a tensor, a tuple of positional or a dict of keyword arguments;
    loss maps the output to a scalar. On a virtual rank it may take ``rank`` and ``world_size`` too, its
    batch is the rank's own, and what it returns is already parallelised. A program that orders forwards and
    backwards itself, such as a pipeline schedule, returns ``(module, step)``: a function without arguments
    that runs them.

    Raises:
        ModelError: It returns something else.
    """
    accepted = inspect.signature(function).parameters
    offered = {
        "batch_size": shape.batch_size,
        "sequence_length": shape.sequence_length,
        "image_size": shape.image_size,
        **_place(),
    }
    name = getattr(function, "__name__", "the function")
    if shape.image_size is not None and "image_size" not in accepted:
        raise ModelError(f"{name} does not take image_size: give the function an argument of that name")
    arguments = {k: v for k, v in offered.items() if k in accepted and v is not None}
    result = function(**arguments)
    if isinstance(result, Program):
        tune_module(result.module, shape.tuning, shape.product_dtype)
        return result
    if not isinstance(result, tuple) or len(result) not in (2, 3) or not isinstance(result[0], nn.Module):
        raise ModelError(
            f"{name} must return (module, inputs), (module, inputs, loss) or (module, step), "
            f"not {type(result).__name__}"
        )
    module, inputs = result[:2]
    tune_module(module, shape.tuning, shape.product_dtype)
    if callable(inputs) and not isinstance(inputs, torch.Tensor | Mapping | tuple | list):
        if shape.weight_dtype is not torch.float32:
            cast_weights(module, shape.weight_dtype)
        return Program(module, batch_size=shape.batch_size, sequence_length=shape.sequence_length, run=inputs)
    loss = result[2] if len(result) == 3 else None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(inputs, Mapping):
        kwargs = dict(inputs)
    elif isinstance(inputs, torch.Tensor):
        args = (inputs,)
    elif isinstance(inputs, tuple | list):
        args = tuple(inputs)
    else:
        raise InputError(f"{name}: inputs must be a tensor, a tuple or a dict, not {type(inputs).__name__}")
    if shape.weight_dtype is not torch.float32:
        cast_weights(module, shape.weight_dtype)
        args, kwargs = tree_map_only(torch.Tensor, caster(shape.weight_dtype), (args, kwargs))
    batch_size = _leading_size((*args, *kwargs.values())) or shape.batch_size
    return Program(module, args, kwargs, loss, batch_size, shape.sequence_length)


def _place() -> dict[str, int]:
    """Where in a parallelised program this process is, if there is one."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return {}
    return {"rank": distributed.get_rank(), "world_size": distributed.get_world_size()}


def _leading_size(values: tuple[Any, ...]) -> int | None:
    return next((v.shape[0] for v in values if isinstance(v, torch.Tensor) and v.ndim > 0), None)
