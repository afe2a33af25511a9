"""Servers under a closed loop of clients → cases: what a further token of an answer took, others beside it.

``inference_ttft_tpot_aiconfigurator``: as many clients as the column ``concurrency`` says send a request, and
the next when its answer is there. Once all are under way a token's time is that of a decode step of all of
them, and the prompts of those that begin meanwhile: with answers of m tokens, one of each other client in m
steps. The time to the first token holds the wait for a place, which is not forecast.

Read are answers at least as long as their prompts, so that decode steps decide, of one server without parts
for prompts alone, and models of the catalog that draft no tokens ahead (which the table does not state).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfcast.catalog.clusters import load_cluster_entry
from perfcast.catalog.models import load_model
from perfcast.core.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.transformer import Transformer
from perfcast.errors import InputError
from perfcast.evidence.validate.runs.lines import Line, UnreadableError

SERVED = "inference_ttft_tpot_aiconfigurator"
KIND = "token under load"
_SYSTEMS = {"a100_sxm": "dgx-a100", "h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "hgx-b200"}
_MODELS = {
    "meta-llama/Llama-3.1-70B": "llama3.1-70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3.1-8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama3.1-8b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b",
}
#: Of checkpoints whose blocks of 128 × 128 share a scale.
_OF_BLOCKS = ("Qwen/Qwen3-235B-A22B-FP8",)
_PRECISIONS = {"": "bf16", "fp8": "fp8", "fp4": "nvfp4"}
_FRAMEWORKS = ("vllm", "sglang", "trtllm")


@dataclass(frozen=True, slots=True)
class ServedSetup:
    """What a line says was run.

    Attributes:
        plan: With the answers of all clients as one micro-batch.
    """

    device: str
    framework: str
    model: Transformer
    cluster: Cluster
    plan: Plan
    dtype: str
    prompt_length: int
    output_length: int


def served_setup(line: Line) -> ServedSetup:
    """What was run.

    Raises:
        UnreadableError: What cannot be forecast.
    """
    system, name = line.text("system"), line.text("model_path")
    if system not in _SYSTEMS:
        raise UnreadableError("unknown device")
    if name not in _MODELS:
        raise UnreadableError("incomplete: model")
    if line.text("mode") != "agg" or line.text("backend") not in _FRAMEWORKS:
        raise UnreadableError("unsupported operation")
    prompt, output = line.whole("isl"), line.whole("osl")
    if output < prompt:
        raise UnreadableError("unsupported operation")
    if line.whole("pp_size", 1) > 1 or (line.find("attention_dp_size") or 1) > 1:
        raise UnreadableError("unsupported plan")
    plan = Plan(tensor_parallel=line.whole("tp_size"), micro_batch_size=line.whole("concurrency"))
    cluster = load_cluster_entry(_SYSTEMS[system]).of_size(plan.world_size)
    return ServedSetup(
        device=cluster.device,
        framework=line.text("backend"),
        model=_model(_MODELS[name]),
        cluster=cluster,
        plan=plan,
        dtype=_dtype(line, name),
        prompt_length=prompt,
        output_length=output,
    )


def alone(plan: Plan) -> Plan:
    """The plan with one sequence, whose prompt is read while the others write."""
    return replace(plan, micro_batch_size=1)


def _dtype(line: Line, model: str) -> str:
    stated = line.text("precision")
    if stated not in _PRECISIONS:
        raise UnreadableError("impossible value")
    return "fp8_block" if stated == "fp8" and model in _OF_BLOCKS else _PRECISIONS[stated]


def _model(name: str) -> Transformer:
    from perfcast.prediction.model import read_model

    try:
        return read_model(load_model(name).name).sizes
    except InputError:
        raise UnreadableError("incomplete: model") from None
