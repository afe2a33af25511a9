"""What a result writes goes over nothing that it was made from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import perfcast as pc

TINY = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 32}


@pytest.mark.parametrize("write", ["to_json", "to_html"])
def test_no_file_of_the_question_is_written_over(tmp_path: Path, write: str):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY))
    result = pc.memory(str(config), device="a100", plan="tp=2")
    link = tmp_path / "link"
    link.symlink_to(config)
    for place in (config, link):
        with pytest.raises(pc.InputError, match="which is read; name another file"):
            getattr(result, write)(place)
    assert json.loads(config.read_text()) == TINY
    getattr(result, write)(tmp_path / "answer")
    getattr(result, write)(tmp_path / "answer")
