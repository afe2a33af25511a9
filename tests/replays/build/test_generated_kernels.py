from __future__ import annotations

from pathlib import Path

import pytest
import torch

from made_up_traces import execution_trace, node, tensor
from perfcast.replays.build import kernels
from perfcast.replays.build.kernels import KernelFolder, draft_kernel
from perfcast.replays.play.kernels import register_kernels
from perfcast.replays.program.draft import NotPlayableError
from perfcast.replays.program.program import KernelSource
from perfcast.replays.rewrite.rewrite import DeviceTarget
from perfcast.torch_internals import generated_kernels
from perfcast.traces.execution_trace.nodes import Node

DEVICE = DeviceTarget("cuda:0", {})


def kernel(folder: Path, file: str = "cabc.py") -> Node:
    both = [(tensor(number, number + 100, [4]), "Tensor(float)", [4]) for number in (10, 11)]
    made = node(
        3,
        "triton_poi_fused",
        inputs=[*both, (4, "Int", []), (140_382, "Int", [])],
        kernel_backend="triton",
        kernel_file=file,
    )
    return execution_trace(folder, [made]).by_id[3]


@pytest.mark.parametrize(
    ("file", "is_saved", "is_allowed", "is_here", "device", "reason"),
    [
        ("cabc.py", False, True, True, "cuda:0", "not beside the trace"),
        ("../evil.py", True, True, True, "cuda:0", "does not name its source"),
        ("cabc.py", True, False, True, "cuda:0", "--run-triton"),
        ("cabc.py", True, True, False, "cuda:0", "not installed"),
        ("cabc.py", True, True, True, "cpu", "for an accelerator"),
    ],
)
def test_a_kernel_that_is_not_run_says_why(
    tmp_path, monkeypatch, file, is_saved, is_allowed, is_here, device, reason
):
    monkeypatch.setattr(kernels, "is_triton_here", lambda: is_here)
    if is_saved:
        (tmp_path / "cabc.py").write_text("")
    with pytest.raises(NotPlayableError, match=reason):
        draft_kernel(kernel(tmp_path, file), KernelFolder(tmp_path, is_allowed), DeviceTarget(device, {}))


def test_a_saved_kernel_is_called_with_its_arguments_but_the_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(kernels, "is_triton_here", lambda: True)
    (tmp_path / "cabc.py").write_text("the source")
    draft, source = draft_kernel(kernel(tmp_path), KernelFolder(tmp_path, is_allowed=True), DEVICE)
    assert draft.operator == "triton::triton_poi_fused_cabc"
    assert draft.schema.endswith("(Tensor(a0!) a0, Tensor(a1!) a1, int a2) -> ()")
    assert len(draft.arguments) == 3
    assert source == KernelSource(draft.operator, draft.schema, "triton_poi_fused", str(tmp_path / "cabc.py"))


def test_a_source_is_compiled_once_when_it_is_first_called(tmp_path, monkeypatch):
    compiled = []

    def fake(name: str, text: str):
        compiled.append((name, text))
        return lambda a, b, times: b.copy_(a * times)

    monkeypatch.setattr(generated_kernels, "compiled_kernel", fake)
    (tmp_path / "made.py").write_text("the source")
    schema = "triton::made_up_kernel(Tensor(a0!) a0, Tensor(a1!) a1, int a2) -> ()"
    source = KernelSource("triton::made_up_kernel", schema, "made", str(tmp_path / "made.py"))
    register_kernels([source])
    register_kernels([source])
    assert compiled == []
    result = torch.zeros(2)
    for _ in range(2):
        torch.ops.triton.made_up_kernel(torch.ones(2), result, 3)
    assert result.tolist() == [3.0, 3.0]
    assert compiled == [("made", "the source")]
