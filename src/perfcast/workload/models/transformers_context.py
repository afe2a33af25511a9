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
    names, is read once more for the same names; losses of detectors take one function of scipy's optimizers.
    Whatever of it is used later is as it would have been.
    """
    load_alone("_trace_wrapped_higher_order_op")
    _list_models_once(import_module("transformers"))
    _defer_assignment()


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


def _defer_assignment() -> None:
    """``scipy.optimize``, which matches boxes to objects, is imported by the first loss that does."""
    if "transformers.loss.loss_utils" in sys.modules or "scipy.optimize" in sys.modules:
        return

    def linear_sum_assignment(*args: Any, **options: Any) -> Any:
        from scipy import optimize

        return optimize.linear_sum_assignment(*args, **options)

    stand_in: Any = ModuleType("scipy.optimize")
    stand_in.linear_sum_assignment = linear_sum_assignment
    sys.modules["scipy.optimize"] = stand_in
    try:
        import_module("transformers.loss.loss_utils")
    finally:
        del sys.modules["scipy.optimize"]
