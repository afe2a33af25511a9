"""Capturing a step does not import torch.compile; what it is asked later, it answers as ever."""

from __future__ import annotations

import subprocess
import sys

#: As if torchvision were not installed: transformers imports it, and it imports all of torch.compile.
CAPTURE = """
import sys
sys.modules["torchvision"] = None
from perfcast.catalogs.devices import load_device
from perfcast.prediction.one_device.graph import capture_step
from perfcast.prediction.request.one_device import Request
request = Request(model="gpt2", batch_size=1, sequence_length=16, dtype="bf16")
step = capture_step(request, load_device("h100-sxm"))
"""

COMPILER = ("torch._dynamo.convert_frame", "torch._inductor", "scipy.optimize")


def run(program: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_a_capture_imports_no_compiler_and_leaves_transformers_as_it_is():
    program = f"""{CAPTURE}
print([name for name in {COMPILER} if name in sys.modules])
import numpy, transformers
from transformers.loss import loss_for_object_detection as losses
rows, columns = losses.linear_sum_assignment(numpy.array([[4, 1], [2, 9]]))
import scipy.optimize
print(columns.tolist(), hasattr(scipy.optimize, "minimize"))
print(transformers.models.gpt2.GPT2Config is transformers.GPT2Config, len(dir(transformers.models)) > 200)
"""
    assert run(program) == "[]\n[1, 0] True\nTrue True"


def test_functions_compile_after_a_capture():
    program = f"""{CAPTURE}
import torch
import torch._dynamo.config
torch._dynamo.config.cache_size_limit = 17
found = []
def backend(graph, inputs):
    found.append(len(graph.graph.nodes))
    return graph.forward
print(torch.compile(lambda x: (x * 2).relu().sum(), backend=backend)(torch.ones(3)).item(), len(found))
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.AdamW([weight])
def step(x):
    (weight * x).sum().backward()
    optimizer.step()
    return weight.detach().sum()
print(torch.compile(step, backend="eager")(torch.ones(2)).item() < 2)
print(torch._dynamo.config.cache_size_limit)
"""
    assert run(program) == "6.0 1\nTrue\n17"


def test_parts_of_the_compiler_are_imported_after_a_capture():
    program = f"""{CAPTURE}
from torch._dynamo.source import ConstantSource, LocalSource
from torch._dynamo.utils import counters
import torch._dynamo
import torch._dynamo.source as again
print(torch._dynamo.utils.counters is counters, again.LocalSource is LocalSource)
"""
    assert run(program) == "True True"
