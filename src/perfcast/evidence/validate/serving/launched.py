"""How servers of the measured points were launched: versions, lengths' clients, options of public scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfcast.core.serving.scheduling import Speculation
from perfcast.evidence.validate.runs.lines import Line
from perfcast.evidence.validate.serving.recipes import Recipe
from perfcast.frameworks.serving import parse_version
from perfcast.prediction.request.serving import EngineOptions

#: Dynamo's container, which the column states for some lines → the program inside.
_RUNTIMES = {"0.5.1": "1.1.0", "0.7.0": "1.2.0", "0.8.0": "1.2.0", "0.8.1": "1.2.0"}
_DATED = re.compile(r"measured=(\d{4}-\d{2}-\d{2})")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_STEP_ROUNDING = 512
_GENERATED_ROUNDING = 128
#: Launch files that aiconfigurator writes (generator/rule_plugin/*.rule, and cli/backends/trtllm.py before):
#: max_num_tokens is the batch, a prompt and so many more; free_gpu_memory_fraction; SGLang's mix prompts with
#: answers (enable_mixed_chunk).
_GENERATED_MORE_TOKENS = 1500
_GENERATED_FRACTION = 0.8
_GENERATED_SGLANG = (0, 5, 6)
#: Of a request to servers behind Dynamo's frontend, which aiconfigurator launches: compiled, and without the
#: interpreter in which the frameworks' own servers read text and write streams; of the order of a few
#: milliseconds, assumed.
DYNAMO_REQUEST_SECONDS = 0.002
_MANY_CLIENTS = 16
#: Launch scripts of TensorRT-LLM with attention data parallelism: attention_dp_config, timeout_iters.
_RANK_WAIT_STEPS = 60
_FULL_FRACTION = 0.92
#: Of DeepSeek's own prediction layer, for each further token given all before it (DeepSeek-V3 report, section
#: 5.4.3: 85 to 90 % of second tokens; the layer is run again for further ones, which fit less well).
ACCEPTANCE: Mapping[int, float] = {1: 0.85, 2: 0.78, 3: 0.72}


def is_blackwell(line: Line) -> bool:
    """Whether the system's GPUs are of that architecture."""
    return line.text("system").startswith(("b200", "b300", "gb"))


def kv_cache_dtype(line: Line, model: str) -> str | None:
    """Where launch scripts ask for keys and values in 8 bits; None: what the program keeps by itself."""
    framework = line.text("backend")
    if framework == "vllm" and model.startswith("llama") and line.text("system") != "h100_sxm":
        return "fp8"
    if framework == "vllm" and model.startswith("minimax") and is_blackwell(line):
        return "fp8"
    if framework == "sglang" and model.startswith("deepseek") and is_blackwell(line):
        return "fp8"
    return None


def is_narrowed(line: Line) -> bool:
    """Whether the client drew lengths below the stated ones."""
    source = line.text("silicon_data_source")
    return bool(re.match(r"(db-dump|source_file=(\d{4}-|.*gap-analysis))", source))


def date_of(line: Line) -> str:
    """Of the measurement, '' where none is stated."""
    found = _DATED.search(line.text("silicon_data_source"))
    return found.group(1) if found else ""


def version_of(line: Line) -> str | None:
    """The program's version as 'X.Y.Z'; by date where the line states none, None where it states neither."""
    framework = line.text("backend")
    found = _VERSION.search(line.text("backend_version"))
    if found:
        version = found.group(0)
        return _RUNTIMES.get(version, version) if framework == "trtllm" else version
    date = date_of(line)
    if not date:
        return None
    early = {"vllm": "0.11.0", "sglang": "0.5.5", "trtllm": "1.1.0"}
    late = {"vllm": "0.16.0", "sglang": "0.5.8", "trtllm": "1.2.0"}
    return (early if date < "2026-01" else late)[framework]


def drafted_tokens(line: Line, model: str) -> int:
    """Tokens that an aggregated server drafts ahead, which no column states.

    Three series of DeepSeek-R1 are measured a second time, half as long for a token: those of TensorRT-LLM's
    release 1.2.0rc6.post3, and on H200 those of 1.1.0rc2.post2 whose columns say 'ep' 8. Their public launch
    scripts come in two kinds, with three drafted tokens (one with attention data-parallel) and without.
    """
    if not model.startswith("deepseek") or line.text("backend") != "trtllm":
        return 0
    is_parallel = (line.number("attention_dp_size") or 1) > 1
    if line.text("backend_version") == "1.2.0rc6.post3":
        return 1 if is_parallel else 3
    is_second = line.text("tp_size") in ("8.0", "8") and line.text("moe_ep_size") in ("8.0", "8")
    if line.text("system") == "h200_sxm" and line.text("backend_version") == "1.1.0rc2.post2" and is_second:
        return 3
    return 0


def engine(line: Line, drafted: int, concurrency: int, recipe: Recipe | None = None) -> EngineOptions:
    """Options of the engines, those of the scripts, or of the recipe, included."""
    framework = line.text("backend")
    return EngineOptions(
        framework=framework,
        version=version_of(line),
        policy="vllm" if _mixes_steps(line) else None,
        max_sequences=_sequences(recipe, concurrency) if recipe else None,
        max_step_tokens=(recipe.step_tokens if recipe else 0) or _step_tokens(line, concurrency, drafted),
        memory_fraction=(recipe.memory_fraction if recipe else 0.0) or _memory_fraction(line),
        polls_every_steps=_steps_between_polls(line, concurrency),
        rank_wait_steps=_RANK_WAIT_STEPS if _waits(line) else None,
        speculation=Speculation(drafted, ACCEPTANCE[drafted]) if drafted else None,
    )


def _steps_between_polls(line: Line, concurrency: int) -> int | None:
    """Launch scripts of SGLang: --scheduler-recv-interval, 10 of few clients and on Hopper, else 30."""
    if line.text("backend") != "sglang" or line.text("mode") != "agg" or not is_narrowed(line):
        return None
    is_qwen = "Qwen3.5" in line.text("model_path")
    return 30 if is_blackwell(line) and (concurrency >= _MANY_CLIENTS or is_qwen) else 10


def _sequences(recipe: Recipe, concurrency: int) -> int | None:
    """Of a rank that writes, where all have room for the clients; else the recipe is of another load."""
    places = recipe.sequences * recipe.decode_workers * recipe.decode_attention_dp
    return recipe.sequences if places >= concurrency else None


def _memory_fraction(line: Line) -> float | None:
    if line.text("backend") == "trtllm" and line.text("mode") == "agg" and not is_narrowed(line):
        return _GENERATED_FRACTION
    return _FULL_FRACTION if _fills_memory(line) else None


def _fills_memory(line: Line) -> bool:
    """SGLang's pools whose weights leave little: recipes set --mem-fraction-static 0.92 to 0.95."""
    is_large = line.text("system") == "h100_sxm" or (
        line.text("system") == "gb200" and line.text("precision") == "fp8"
    )
    return is_large and line.text("backend") == "sglang" and line.text("mode") == "disagg"


def _waits(line: Line) -> bool:
    is_parallel = (line.number("attention_dp_size") or 1) > 1
    return is_parallel and line.text("backend") == "trtllm" and is_narrowed(line)


def _mixes_steps(line: Line) -> bool:
    """SGLang with --enable-mixed-chunk: prompts are cut and read beside answers, as vLLM's scheduler does."""
    if line.text("backend") != "sglang" or line.text("mode") != "agg" or is_narrowed(line):
        return False
    return parse_version(version_of(line) or "0") >= _GENERATED_SGLANG


def _step_tokens(line: Line, concurrency: int, drafted: int) -> int | None:
    """Tokens of a step of TensorRT-LLM, which does not cut prompts: launch scripts leave room for one prompt
    beside a token of every client ('max_num_tokens'), and those that aiconfigurator writes a part of another,
    of vLLM too; rounded up, so that points share step times."""
    framework = line.text("backend")
    if framework == "sglang" or line.text("mode") != "agg":
        return None
    if not is_narrowed(line):
        wanted = concurrency + line.whole("isl") + _GENERATED_MORE_TOKENS
        return -(-wanted // _GENERATED_ROUNDING) * _GENERATED_ROUNDING
    if framework != "trtllm":
        return None
    wanted = line.whole("isl") + concurrency * (1 + drafted) + 64
    return -(-wanted // _STEP_ROUNDING) * _STEP_ROUNDING
