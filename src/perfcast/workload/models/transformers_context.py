"""What surrounds a transformers model while it is built and run symbolically."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from perfcast.torch_internals.dynamo import load_alone
from perfcast.torch_internals.vision import make_torchvision_importable


@contextmanager
def symbolic_answers() -> Iterator[None]:
    """Sequences are not packed; transformers would see that from the positions and use a causal kernel."""
    from transformers import masking_utils

    original = masking_utils.find_packed_sequence_indices

    def find_none(position_ids: torch.Tensor) -> None:
        indices = original(position_ids)
        if indices is not None:
            (indices[:, -1] == 0).all()

    masking_utils.find_packed_sequence_indices = find_none
    try:
        with quiet_transformers():
            yield
    finally:
        masking_utils.find_packed_sequence_indices = original


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No downloads and no advice on standard error while a model is built."""
    before = os.environ.get("HF_HUB_OFFLINE")
    os.environ["HF_HUB_OFFLINE"] = "1"
    with warnings.catch_warnings():  # in a notebook, tqdm asks for widgets that nothing here shows
        warnings.filterwarnings("ignore", message="IProgress not found")
        import_lightly()
        from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if before is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = before


@cache
def import_lightly() -> None:
    """Import what modules of models need of transformers, without what takes longest and does nothing here.

    They ask for one file of torch.compile; the folder of models, whose files were all read to list their
    names, is read once more for the same names; losses of detectors take single functions of what is large.
    Whatever of it is used later is as it would have been. It asks for torchvision where that is installed.
    """
    make_torchvision_importable()
    load_alone("_trace_wrapped_higher_order_op")
    _list_models_once(import_module("transformers"))
    _defer_losses()


def _list_models_once(transformers: Any) -> None:
    """``transformers.models`` lists its names anew; they are those that ``transformers`` has listed."""
    if "transformers.models" in sys.modules:
        return
    tools = transformers.utils.import_utils
    folder, original = Path(transformers.__file__).parent / "models", tools.define_import_structure
    before = f"{folder.name}."

    def known(module_path: str, prefix: str | None = None) -> Any:
        if Path(module_path) != folder / "__init__.py" or prefix is not None:
            return original(module_path, prefix)
        listed = original(folder, prefix=folder.name)
        return {
            backends: {
                name.removeprefix(before): own for name, own in files.items() if name.startswith(before)
            }
            for backends, files in listed.items()
        }

    tools.define_import_structure = known
    try:
        import_module("transformers.models")
    finally:
        tools.define_import_structure = original


def _defer_losses() -> None:
    """What losses of detectors take from elsewhere is imported by the first that runs.

    ``scipy.optimize`` matches boxes to objects; ``transformers.image_transforms`` turns their corners, and
    imports all that prepares images.
    """
    if "transformers.loss.loss_utils" in sys.modules:
        return
    stand_ins = [
        _later(module, function)
        for module, function in (
            ("scipy.optimize", "linear_sum_assignment"),
            ("transformers.image_transforms", "center_to_corners_format"),
        )
        if module not in sys.modules
    ]
    sys.modules.update({one.__name__: one for one in stand_ins})
    try:
        import_module("transformers.loss.loss_utils")
    finally:
        for one in stand_ins:
            del sys.modules[one.__name__]


def _later(module: str, function: str) -> ModuleType:
    """A module of one function, which is imported when it is called."""

    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(module), function)(*args, **options)

    stand_in = ModuleType(module)
    setattr(stand_in, function, call)
    return stand_in
