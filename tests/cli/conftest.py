"""What tests of several commands take."""

import json
from pathlib import Path

import pytest

TINY = {"model_type": "gpt2", "n_layer": 4, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 32}


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A config.json of a GPT-2 of four layers."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)
