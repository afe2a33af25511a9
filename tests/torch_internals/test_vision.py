"""torchvision whose compiled operators are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_REGISTRATIONS = """
import torch

def register_meta(name):
    def wrap(function):
        operator = getattr(torch.ops.torchvision, name).default
        torch.library.Library("torchvision", "IMPL", "Meta").impl(operator, function)
        return function
    return wrap

@torch.library.register_fake("torchvision::nms")
def nms(a):
    return a

@register_meta("roi_align")
def roi_align(a):
    return a
"""


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    place = folder / "torchvision"
    place.mkdir()
    (place / "__init__.py").write_text("from torchvision import _meta_registrations\nSIZE = 3\n")
    (place / "_meta_registrations.py").write_text(_REGISTRATIONS)
    code = f"import sys; sys.path.insert(0, {str(folder)!r})\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_torchvision_without_its_operators_does_not_import_by_itself(tmp_path: Path):
    assert "operator torchvision::nms does not exist" in run(tmp_path, "import torchvision").stderr


def test_a_torchvision_without_its_operators_is_made_importable(tmp_path: Path):
    found = run(
        tmp_path,
        "from perfcast.torch_internals.vision import make_torchvision_importable\n"
        "make_torchvision_importable()\n"
        "import torch, torchvision\n"
        "print(torchvision.SIZE, torch.ops.torchvision.nms, torch.ops.torchvision.roi_align)",
    )
    assert found.stdout == "3 torchvision.nms torchvision.roi_align\n", found.stderr


def test_another_fault_of_torchvision_is_not_hidden(tmp_path: Path):
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('of another kind')")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from perfcast.torch_internals.vision import make_torchvision_importable\n"
        "make_torchvision_importable()\n"
        "import torchvision"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "of another kind" in found.stderr


def test_a_config_is_read_by_a_process_that_has_built_no_model():
    """transformers imports torchvision where it is installed, whatever it was built for."""
    program = (
        "from perfcast.workload.models.transformer import read_transformer\n"
        "config = {'model_type': 'llama', 'hidden_size': 64, 'num_hidden_layers': 3, 'vocab_size': 99}\n"
        "print(read_transformer(config, None).num_layers)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert found.stdout.strip() == "3", found.stderr
