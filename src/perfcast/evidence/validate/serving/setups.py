"""A line of the measured table → what was served, on what, and under which load.

``inference_ttft_tpot_aiconfigurator`` (ai-dynamo/aiconfigurator, Apache-2.0, of a public benchmark's dump)
has a line for each deployment and concurrency. What it does not say, or says in two ways:

* Devices of a worker: where ``moe_tp_size`` = ``moe_ep_size`` = g and tp · attention dp = g², or where
  ``tp_size`` = ``attention_dp_size`` = g and ``moe_ep_size`` = g², the columns state one degree twice: the
  worker has g devices (``batch_size`` is the concurrency over the attention data-parallel ranks; gpt-oss's
  'tp 4 of 2 × 2' takes as long as tp 2). An aggregated line of more than 16 devices is the total of a
  deployment in two pools.
* Workers of the pools and drafted tokens: by launch recipe (``recipes``), the newest that was published by
  then; where a recipe with drafts fits a line as well as one without, the line's interval holds both.
* Drafts of an aggregated server: ``drafted_tokens``.
* Lengths: the benchmark's client draws prompts and answers between 80 and 100 % of the stated lengths;
  lines of 'source_file' by a model's name were sent at the stated lengths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from perfcast.catalogs.clusters import ClusterEntry, load_cluster_entry
from perfcast.catalogs.models import load_models
from perfcast.core.dtype import AUTO
from perfcast.core.machine.cluster import Cluster
from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Deployment, Disaggregated, Pool
from perfcast.core.serving.lengths import Lengths
from perfcast.core.serving.load import ClosedLoad
from perfcast.errors import PlanError
from perfcast.evidence.validate.runs.lines import Line, UnreadableError
from perfcast.evidence.validate.serving.launched import (
    DYNAMO_REQUEST_SECONDS,
    date_of,
    drafted_tokens,
    engine,
    is_blackwell,
    is_narrowed,
    kv_cache_dtype,
)
from perfcast.evidence.validate.serving.recipes import Recipe, Stated, match_recipes
from perfcast.prediction.request.serving import ServingRequest

FRAMEWORKS = ("vllm", "sglang", "trtllm")
_CLUSTERS = {
    "a100_sxm": "dgx-a100",
    "h100_sxm": "dgx-h100",
    "h200_sxm": "dgx-h200",
    "b200_sxm": "hgx-b200",
    "b300_sxm": "hgx-b300",
    "gb200": "gb200-nvl72",
    "gb200_sxm": "gb200-nvl72",
    "gb300": "gb300-nvl72",
    "gb300_sxm": "gb300-nvl72",
}
#: Checkpoints whose name is not that of the catalog's model without its format.
_MODELS = {"deepseek-v3.1": "deepseek-v3", "deepseek-r1-0528": "deepseek-r1"}
_ENDINGS = re.compile(r"-(instruct|fp8|nvfp4|fp4|bf16|thinking|2507)$")
#: Models whose fp8 checkpoints have a scale for each 128 × 128 weights, by the beginning of their name.
_OF_BLOCKS = ("deepseek", "minimax", "qwen3.5", "qwen3-235b", "glm", "kimi")
#: What published NVFP4 checkpoints keep in bf16, by the beginning of the model's name.
_WIDE_PARTS = {
    "deepseek": "+attention=bf16",
    "minimax": "+attention=bf16",
    "glm": "+attention=bf16",
    "kimi": "+attention=bf16+mlp=bf16",
    "qwen3.5": "+attention=bf16+mlp=bf16",
}
_NARROWED = 0.8
#: Ranks that do not divide 256 experts, which recipes spread with copies → the nearest that do.
_EVEN_RANKS = {24: 32, 48: 64}
_CLUSTER_SIZES = (8, 72, 128, 144, 256, 288, 1024)
#: Beyond this many devices no server of these systems is one replica.
_MOST_OF_A_REPLICA = 16


@dataclass(frozen=True, kw_only=True)
class ServingSetup:
    """What a line says was served.

    Attributes:
        request: Of the most likely deployment.
        instead: Requests that the line leaves as possible.
        configuration: What tells deployments apart, whatever the load and the lengths.
    """

    request: ServingRequest
    instead: tuple[ServingRequest, ...]
    configuration: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Launch:
    """A deployment, the tokens that it drafts, and the recipe that it is of, where it is of one."""

    deployment: Deployment
    drafted: int
    recipe: Recipe | None = None


def read_setup(line: Line) -> ServingSetup:
    """What was served.

    Raises:
        UnreadableError: What cannot be forecast.
    """
    system, framework = line.text("system"), line.text("backend")
    if system not in _CLUSTERS:
        raise UnreadableError("unknown device")
    if framework not in FRAMEWORKS:
        raise UnreadableError("unsupported operation")
    launches = _launches(line)
    concurrency = _concurrency(line, launches[0].deployment)
    entry = load_cluster_entry(_CLUSTERS[system])
    model = _model(line.text("model_path"))
    spread = is_narrowed(line)
    requests = tuple(
        ServingRequest(
            model=model,
            cluster=_cluster(entry, launch.deployment),
            load=ClosedLoad(concurrency),
            deployment=launch.deployment,
            prompts=_lengths(line.whole("isl"), spread),
            answers=_lengths(line.whole("osl"), spread),
            engine=engine(line, launch.drafted, concurrency, launch.recipe),
            dtype=_dtype(line, model),
            kv_cache_dtype=kv_cache_dtype(line, model),
            request_seconds=None if spread else DYNAMO_REQUEST_SECONDS,
        )
        for launch in launches
    )
    return ServingSetup(
        request=requests[0],
        instead=requests[1:],
        configuration=_configuration(line, model),
    )


def _configuration(line: Line, model: str) -> tuple[str, ...]:
    parallel = (
        "tp_size",
        "attention_dp_size",
        "moe_tp_size",
        "moe_ep_size",
        "prefill_num_workers",
        "prefill_tp_size",
        "prefill_attention_dp_size",
        "prefill_moe_ep_size",
        "decode_num_workers",
        "decode_tp_size",
        "decode_attention_dp_size",
        "decode_moe_ep_size",
    )
    named = ("system", "backend", "precision", "mode")
    return (model, *(line.text(name) for name in (*named, *parallel)))


def _model(path: str) -> str:
    """The catalog's name of a checkpoint."""
    name = path.rpartition("/")[2].lower()
    while _ENDINGS.search(name):
        name = _ENDINGS.sub("", name)
    name = _MODELS.get(name, name)
    if name not in load_models():
        name = name.replace("llama-3", "llama3")
    if name not in load_models():
        raise UnreadableError("incomplete: model_path")
    return name


def _dtype(line: Line, model: str) -> str:
    if model.startswith("gpt-oss"):  # its checkpoint: experts in MXFP4, with narrow activations where that is
        return "w4a8_mxfp4_mxfp8+attention=bf16+mlp=bf16" if is_blackwell(line) else AUTO  # a format of GPUs
    stated = line.text("precision") or line.text("gemm_quant_mode")
    if stated == "fp8":
        is_of_blocks = model.startswith(_OF_BLOCKS) or line.text("gemm_quant_mode") == "fp8_block"
        return "fp8_block" if is_of_blocks else "fp8"
    if stated not in ("", "fp4", "bf16", "fp8_block"):
        raise UnreadableError("impossible value")
    if stated == "fp4":
        parts = next((parts for start, parts in _WIDE_PARTS.items() if model.startswith(start)), "")
        return f"nvfp4{parts}"
    return stated or "bf16"


def _lengths(tokens: int, is_narrowed: bool) -> Lengths:
    if not is_narrowed:
        return Lengths(tokens)
    mean = (1 + _NARROWED) / 2
    return Lengths(tokens * mean, "uniform", (1 - _NARROWED) / 2 / mean)


def _launches(line: Line) -> tuple[_Launch, ...]:
    """What may have been launched, the most likely first."""
    if line.text("mode") == "agg":
        degrees = worker_degrees(line, "")
        if degrees.num_devices <= _MOST_OF_A_REPLICA:
            pool = Pool(_plan(degrees))
            return (_Launch(Aggregated(pool), drafted_tokens(line, _model(line.text("model_path")))),)
        return _in_two_pools(line, degrees.num_devices)
    if line.text("mode") != "disagg":
        raise UnreadableError("unsupported operation")
    return _in_two_pools(line, None)


@dataclass(frozen=True, slots=True)
class Degrees:
    """Of one worker: devices, attention data-parallel ranks, and ranks over which experts are spread."""

    num_devices: int
    attention_dp: int
    ep: int


def worker_degrees(line: Line, pool: str) -> Degrees:
    """What the columns of a worker say, where ``pool`` is '', 'prefill_' or 'decode_'.

    Raises:
        UnreadableError: They state no devices.
    """

    def degree(name: str) -> int:
        return int(line.number(f"{pool}{name}") or 1)

    tp, dp = degree("tp_size"), degree("attention_dp_size")
    moe_tp, moe_ep = degree("moe_tp_size"), degree("moe_ep_size")
    pp = degree("pp_size")
    if pp > 1:
        raise UnreadableError("unsupported plan")
    if moe_tp == moe_ep > 1 and tp * dp == moe_tp**2:
        return Degrees(moe_tp, moe_tp if dp > 1 else 1, moe_ep)
    if tp == dp > 1 and moe_ep == tp**2:
        return Degrees(tp, tp, tp)
    devices = max(tp * dp, moe_tp * moe_ep) if dp == 1 and tp == 1 else tp * dp
    return Degrees(devices, dp, min(moe_ep, devices))


def _plan(degrees: Degrees) -> Plan:
    if degrees.num_devices % degrees.attention_dp or degrees.num_devices % degrees.ep:
        raise UnreadableError("unsupported plan")
    return Plan(
        tensor_parallel=degrees.num_devices // degrees.attention_dp,
        data_parallel=degrees.attention_dp,
        expert_parallel=degrees.ep,
        expert_tensor_parallel=degrees.num_devices // degrees.ep,
    )


def _in_two_pools(line: Line, total: int | None) -> tuple[_Launch, ...]:
    """By the recipes that fit best, one for each number of drafts, none first; else by the columns.

    Of lines that recipes with and without drafts fit equally well most were measured without (half of the
    configurations on which constants are fitted).
    """
    if total is None:
        prefill, decode = worker_degrees(line, "prefill_"), worker_degrees(line, "decode_")
        if prefill.num_devices == decode.num_devices > _MOST_OF_A_REPLICA:
            total = prefill.num_devices
    stated = _stated(line, total)
    recipes = {recipe.drafted: recipe for recipe in match_recipes(stated)}
    if recipes:
        return tuple(_launch_of(recipes[drafted]) for drafted in sorted(recipes))
    if total is not None:
        raise UnreadableError("incomplete: prefill_num_workers")
    pools = (
        Pool(_plan(prefill), line.whole("prefill_num_workers", 1)),
        Pool(_plan(decode), line.whole("decode_num_workers", 1)),
    )
    return (_Launch(Disaggregated(*pools), 0),)


def _stated(line: Line, total: int | None) -> Stated:
    """What a line says of its two pools; columns that say 1 device of a model of 671 billion say nothing."""
    concurrency = line.whole("concurrency", 1)

    def devices(pool: str) -> int | None:
        found = worker_degrees(line, pool).num_devices
        return None if total is not None or found == 1 else found

    if not _model(line.text("model_path")).startswith("deepseek"):
        concurrency, framework = 1, "none"  # the recipes are DeepSeek-R1's
    else:
        framework = line.text("backend")
    workers = [line.number(f"{pool}_num_workers") for pool in ("prefill", "decode")]
    return Stated(
        device=line.text("system").removesuffix("_sxm"),
        framework=framework,
        precision=line.text("precision"),
        isl=line.whole("isl"),
        osl=line.whole("osl"),
        concurrency=concurrency,
        prefill_workers=None if workers[0] is None else int(workers[0]),
        decode_workers=None if workers[1] is None else int(workers[1]),
        prefill_devices=devices("prefill_"),
        decode_devices=devices("decode_"),
        decode_attention_dp=_stated_dp(line),
        total_devices=total,
        date=date_of(line),
    )


def _stated_dp(line: Line) -> int | None:
    """Columns say 1 both where attention is cut and where they do not know."""
    found = line.number("decode_attention_dp_size") or 1
    knows = line.find("decode_num_workers") is not None
    return int(found) if knows or found > 1 else None


def _launch_of(recipe: Recipe) -> _Launch:
    prefill = Degrees(recipe.prefill_devices, recipe.prefill_attention_dp, recipe.prefill_ep)
    decode = Degrees(recipe.decode_devices, recipe.decode_attention_dp, recipe.decode_ep)
    if recipe.decode_ep in _EVEN_RANKS:  # with copies of experts, so that each rank has as many
        ranks = _EVEN_RANKS[recipe.decode_ep]
        decode = Degrees(ranks, ranks, ranks)
    return _Launch(
        Disaggregated(
            Pool(_plan(prefill), recipe.prefill_workers), Pool(_plan(decode), recipe.decode_workers)
        ),
        recipe.drafted,
        recipe,
    )


def _concurrency(line: Line, deployment: Deployment) -> int:
    """Clients; where the column is empty, what the engines were set to hold."""
    stated = line.number("concurrency")
    if stated:
        return int(stated)
    if isinstance(deployment, Aggregated):
        return line.whole("batch_size")
    return line.whole("decode_batch_size") * deployment.decode.replicas


def _cluster(entry: ClusterEntry, deployment: Deployment) -> Cluster:
    """The smallest of the system that holds a deployment, whose servers may not be full.

    Those of two pools are of few sizes, so that points share step times.
    """
    least = deployment.num_devices
    sizes: Iterable[int] = range(least, 2 * least + 72)
    if isinstance(deployment, Disaggregated):
        sizes = (size for size in _CLUSTER_SIZES if size >= least)
    for count in sizes:
        try:
            return entry.of_size(count)
        except PlanError:
            continue
    raise UnreadableError("unsupported plan")
