"""Image models of the package ``timm`` by their names: ``timm:resnet50``, without weights.

timm is not a dependency (``pip install perfcast[vision]``). A name may carry the tag of pretrained weights
(``convnext_base.fb_in22k_ft_in1k_384``), which then says size of images and number of classes, as in timm.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from perfcast.errors import ModelError, UnknownNameError
from perfcast.torch_internals.vision import make_torchvision_importable
from perfcast.workload.models.tuned.tune import tune_module
from perfcast.workload.models.weights import cast_weights
from perfcast.workload.models.without_values import make_symbolic, without_values
from perfcast.workload.shape import StepShape
from perfcast.workload.step import Program

#: What names of timm's begin with.
PREFIX = "timm:"


def check_timm_name(name: str) -> None:
    """Whether timm has a model of a name, with or without the prefix.

    Raises:
        ModelError: timm is not installed.
        UnknownNameError: No such model, or no such weights of it; lists close names.
    """
    timm, name = _import_timm(), name.removeprefix(PREFIX)
    architecture, _, tag = name.partition(".")
    if not timm.models.is_model(architecture):
        raise UnknownNameError("timm model", architecture, timm.list_models(), "See timm.list_models().")
    if tag and name not in timm.models.list_pretrained(f"{architecture}.*"):
        raise UnknownNameError(
            f"weights of timm:{architecture}",
            tag,
            [known.partition(".")[2] for known in timm.models.list_pretrained(f"{architecture}.*")],
        )


def build_timm_program(name: str, shape: StepShape) -> Program:
    """The model with a batch of images, in training with labels and the loss of classes.

    Runs under fake tensors as well as on real ones. Images are of the size that the weights of the name were
    trained with, unless the shape asks for another; a model whose weights depend on the size is built for it.

    Raises:
        ModelError: A model that takes no other size, or no images.
        UnknownNameError: No such model.
    """
    check_timm_name(name)
    if shape.mode == "decode":
        raise ModelError(f"{name} does not generate tokens; it has no decode step")
    module = _build(name, shape)
    make_symbolic(module)
    config: Mapping[str, Any] = vars(module)["pretrained_cfg"]
    channels, *own_size = config["input_size"]
    height, width = own_size if shape.image_size is None else (shape.image_size, shape.image_size)
    if shape.weight_dtype is not torch.float32:
        cast_weights(module, shape.weight_dtype)
    if shape.mode == "train" and shape.recompute == "full":
        _checkpoint(module, name)
    tune_module(module, shape.tuning, shape.product_dtype)
    images = torch.zeros(shape.batch_size, channels, height, width, dtype=shape.weight_dtype)
    note = f"images of {height} × {width}"
    if shape.mode != "train":
        return Program(module, (images,), batch_size=shape.batch_size, notes=(note,))
    labels = torch.zeros(shape.batch_size, dtype=torch.int64)

    def loss_of(output: Any) -> Tensor:
        return functional.cross_entropy(_first(output), labels)

    return Program(module, (images,), loss_function=loss_of, batch_size=shape.batch_size, notes=(note,))


def _build(name: str, shape: StepShape) -> nn.Module:
    timm, plain, size = _import_timm(), name.removeprefix(PREFIX), shape.image_size
    with _quiet(), without_values(), _attention(timm, shape.attention):
        config = timm.models.get_pretrained_cfg(plain, allow_unregistered=True)
        is_fixed = bool(config is not None and config.fixed_input_size)
        is_own = config is not None and tuple(config.input_size[1:]) == (size, size)
        built_for = {} if size is None or is_own or not is_fixed else {"img_size": size}
        try:
            return cast(nn.Module, timm.create_model(plain, **built_for))
        except (TypeError, AssertionError) as error:
            if not built_for:
                raise
            raise ModelError(f"{name} takes images of its own size alone, not of {size}: {error}") from error


@contextmanager
def _attention(timm: ModuleType, attention: str) -> Iterator[None]:
    """Models built inside have fused attention, or attention written out."""
    before = timm.layers.use_fused_attn()
    timm.layers.set_fused_attn(attention == "sdpa")
    try:
        yield
    finally:
        timm.layers.set_fused_attn(before)


def _first(output: Any) -> Tensor:
    """Of a model that returns several, as a distilled one does in training, the first."""
    first: Tensor = output[0] if isinstance(output, tuple | list) else output
    return first


def _checkpoint(module: nn.Module, name: str) -> None:
    """Every block runs again in the backward."""
    enable = getattr(module, "set_grad_checkpointing", None)
    try:
        if enable is None:
            raise AssertionError("it has no set_grad_checkpointing")
        enable(True)
    except AssertionError as error:
        raise ModelError(f"{name} does not support recompute=full: {error}") from error


def _import_timm() -> ModuleType:
    make_torchvision_importable()
    try:
        with _quiet():
            import timm
            import timm.layers
            import timm.models
    except ImportError as error:
        raise ModelError(
            f"{PREFIX}NAME is a model of the package timm ({error}): pip install timm, or perfcast[vision]"
        ) from error
    module: ModuleType = timm
    return module


@contextmanager
def _quiet() -> Iterator[None]:
    """Without timm's warnings that a name is an old one, or that a kernel falls back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
