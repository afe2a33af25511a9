"""A Hugging Face config.json, read and checked without transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfcast.errors import ModelError
from perfcast.files.reading import read_json
from perfcast.workload.models.config_keys import check_keys

_MAX_SIZE = 10**9
_MAX_LAYERS = 10**4
_SIZE_WORDS = (
    "size layers layer heads head dim embd positions d_model d_ff d_kv inner experts hidden num_channels"
).split()


def read_config(path: Path) -> dict[str, Any]:
    """A config.json, or the one in a folder.

    Raises:
        ModelError: Missing, not JSON, not an object, a key of the wrong kind, or impossible sizes.
    """
    if path.is_dir():
        path = path / "config.json"
    config = read_json(path, what="the model config", error=ModelError, may_be_infinite=True)
    if not isinstance(config, dict):
        raise ModelError(f"{path}: expected a JSON object, found {type(config).__name__}")
    if "model_type" not in config:
        raise ModelError(f"{path}: no 'model_type'; this is not a Hugging Face model config")
    check_keys(config, str(path))
    _check_sizes(config, str(path))
    return config


def _check_sizes(config: Mapping[str, Any], where: str) -> None:
    for key, value in config.items():
        if isinstance(value, Mapping):
            _check_sizes(value, f"{where}: {key}")
        if key == "max_relative_positions":  # -1 says: as many as there are positions
            continue
        is_size = any(
            key == word or key.endswith(f"_{word}") or key.startswith(f"{word}_") for word in _SIZE_WORDS
        )
        if is_size and isinstance(value, int | float) and not isinstance(value, bool):
            if value < 0:
                raise ModelError(f"{where}: {key} is {value}; a size cannot be negative")
            limit = _MAX_LAYERS if key.endswith(("layer", "layers")) else _MAX_SIZE
            if value > limit:
                raise ModelError(f"{where}: {key} is {value}; no model is that large (limit {limit})")
            if value == 0 and key in (
                "hidden_size",
                "n_embd",
                "d_model",
                "num_attention_heads",
                "n_head",
                "vocab_size",
            ):
                raise ModelError(f"{where}: {key} is 0")
