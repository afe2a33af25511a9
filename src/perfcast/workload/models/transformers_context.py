"""What surrounds a transformers model while it is built and run symbolically."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


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
