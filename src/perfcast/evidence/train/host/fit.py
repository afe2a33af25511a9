"""``train host``: single operators on an idle device and batch-1 steps → constants of the host.

Warm costs are what the NeuSight study's operators took on an idle device between two events, less the time
between two events with nothing between them: views, modules that do nothing in inference, and tensors that
are filled (less the kernel). The hosts of A100 and MI100 are the reference. How much longer a program takes
that runs one operator after another comes from eager batch-1 inference in NVIDIA's examples on the reference
processor, whose devices wait for the host alone. Other classes keep their place relative to a light operator.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from perfcast.catalogs.devices import find_device_name, load_device
from perfcast.cost.host.costs import cost_file, parse_host_costs
from perfcast.cost.host.issue import host_of
from perfcast.errors import InputError
from perfcast.evidence.dataset.table import read_frame
from perfcast.evidence.validate.runs.lines import spelled
from perfcast.prediction.one_device.graph import build_graph
from perfcast.prediction.request.one_device import Request
from perfcast.units import MICRO, MILLI

OPERATORS = "neusight/step_operators.parquet"
_REFERENCE = ("a100-pcie-40gb", "mi100")
_VIEWS = frozenset({"view", "permute", "transpose", "expand", "unsqueeze"})
_NOTHING = frozenset({"size", "dim", "<built-in function getattr>"})
_FILLS = ("ones", "full", "arange")
#: Of a kernel that fills a small tensor.
_FILL_KERNEL = 1.5 * MICRO
#: Batch-1 inference on a DGX A100, images per second (NVIDIA DeepLearningExamples, EfficientNet README).
_BATCH_OF_ONE: Mapping[tuple[str, str], float] = {
    ("efficientnet_b0", "tf32"): 130.0,
    ("efficientnet_b4", "tf32"): 69.0,
    ("efficientnet_b0", "fp16"): 105.0,
    ("efficientnet_b4", "fp16"): 53.0,
}


@dataclass(frozen=True)
class WarmCosts:
    """Seconds of one host's operators on an idle device."""

    view: float
    module_call: float
    light: float


@dataclass(frozen=True)
class FittedHost:
    """What was fitted.

    Attributes:
        warm: On the reference hosts.
        slowness: Of the other hosts' views, relative to the reference, by device.
        program: How many times as long as warm a program takes.
    """

    warm: WarmCosts
    slowness: Mapping[str, float]
    program: float


def fit_host(folder: Path, say: Callable[[str], None]) -> FittedHost:
    """Fit to the tables of a folder.

    Raises:
        InputError: A table is missing, or lacks the reference devices.
    """
    path = folder / OPERATORS
    if not path.exists():
        raise InputError(f"{folder}: no {OPERATORS}")
    by_device = warm_costs(read_frame(path).to_dicts())
    reference = [by_device[name] for name in _REFERENCE if name in by_device]
    if not reference:
        raise InputError(f"{path}: none of {', '.join(_REFERENCE)}")
    warm = WarmCosts(*(fmean(getattr(one, name) for one in reference) for name in WarmCosts.__annotations__))
    slowness = {n: one.view / warm.view for n, one in by_device.items() if n not in _REFERENCE}
    return FittedHost(warm, slowness, _program(warm, say))


def warm_costs(nodes: Sequence[Mapping[str, Any]]) -> dict[str, WarmCosts]:
    """By catalog device; only inference, which no autograd accompanies."""
    seconds: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        device, kind = find_device_name(spelled(str(node["device"]))), _kind_of(str(node["target"]))
        if device is not None and kind is not None and node["mode"] == "inference":
            seconds[device][kind].append(float(node["forward_ms"]) * MILLI)
    found = {}
    for device, times in seconds.items():
        if len(times) == 4:
            middle = {kind: median(values) for kind, values in times.items()}
            view, module, fill = (middle[kind] - middle["nothing"] for kind in ("view", "module", "fill"))
            found[device] = WarmCosts(view, module, fill - _FILL_KERNEL)
    return found


def _kind_of(target: str) -> str | None:
    if target in _NOTHING:
        return "nothing"
    if target in _VIEWS:
        return "view"
    if target.rpartition(".")[2] in ("dropout", "attn_dropout", "resid_dropout", "drop"):
        return "module"
    is_fill = "type object" in target and any(f" {name} of" in target for name in _FILLS)
    return "fill" if is_fill else None


def _program(warm: WarmCosts, say: Callable[[str], None]) -> float:
    """Geometric mean of measured over warm time of steps that wait for the host alone."""
    device = load_device("a100-sxm-80gb")
    host = host_of(device, "eager", "epyc-7742")
    host = replace(host, costs=parse_host_costs(_with_figures(warm, program=1.0)))
    ratios = []
    for (model, dtype), rate in _BATCH_OF_ONE.items():
        say(f"capturing {model}, {dtype}")
        request = Request(
            model=f"timm:{model}", mode="prefill", dtype=dtype, autocast=dtype == "fp16", batch_size=1
        )
        graph, _ = build_graph(request, device)
        ratios.append(1 / rate / float(host.issue_seconds(graph).sum()))
    return float(np.exp(np.mean(np.log(ratios))))


def _figure(content: str, name: str) -> float:
    found = re.search(rf"^{name} = ([0-9.]+)$", content, re.MULTILINE)
    assert found is not None, "the file that is shipped has it"
    return float(found[1])


def format_costs(fitted: FittedHost) -> str:
    """The shipped file with what was fitted."""
    return _with_figures(fitted.warm, fitted.program)


def _with_figures(warm: WarmCosts, program: float) -> str:
    """The shipped file with these; other classes keep their place relative to a light operator."""
    content = cost_file().read_text(encoding="utf-8")
    scale = warm.light / MICRO / _figure(content, "light")
    section = content.index("[warm.operators]")
    end = content.index("[compiled]")
    operators = re.sub(
        r"^(\w+) = ([0-9.]+)$",
        lambda m: f"{m[1]} = {scale * float(m[2]):.3g}",
        content[section:end],
        flags=re.MULTILINE,
    )
    content = content[:section] + operators + content[end:]
    figures = {
        "program": program,
        "view": warm.view / MICRO,
        "module_call": warm.module_call / MICRO,
    }
    for name, value in figures.items():
        content = re.sub(rf"^{name} = [0-9.]+$", f"{name} = {value:.3g}", content, flags=re.MULTILINE)
    return content


def describe(fitted: FittedHost) -> Sequence[str]:
    """What was found, as lines."""
    warm = fitted.warm
    figures = ", ".join(f"{n} {getattr(warm, n) / MICRO:.2f} µs" for n in WarmCosts.__annotations__)
    slowness = ", ".join(f"{name} {value:.2f}" for name, value in fitted.slowness.items())
    return (
        f"warm: {figures}",
        f"in a program: {fitted.program:.2f} times as long",
        f"other hosts, relative: {slowness}",
    )
