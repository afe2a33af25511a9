"""What a line of the measured table says was served."""

from __future__ import annotations

from typing import Any

import pytest
from measured_points import DENSE, POOLS

from perfcast.core.plan import Plan
from perfcast.core.serving.deployment import Aggregated, Disaggregated
from perfcast.core.serving.load import ClosedLoad
from perfcast.evidence.validate.runs.lines import Line, UnreadableError
from perfcast.evidence.validate.serving.recipes import Stated, load_recipes, match_recipes
from perfcast.evidence.validate.serving.setups import Degrees, read_setup, worker_degrees
from perfcast.evidence.validate.serving.split import half_of


def setup_of(line: dict[str, Any], **changes: Any) -> Any:
    return read_setup(Line({**line, **changes}))


def test_a_server_is_its_plan_and_its_clients() -> None:
    request = setup_of(DENSE).request
    assert request.model == "llama3.1-8b"
    assert request.deployment == Aggregated(pool=request.deployment.pool)
    assert request.deployment.pool.plan == Plan(tensor_parallel=2, expert_tensor_parallel=2)
    assert request.load == ClosedLoad(4)
    assert (request.dtype, request.cluster.num_devices) == ("fp8", 2)
    assert (request.engine.framework, request.engine.version) == ("vllm", "0.11.0")


def test_the_benchmarks_client_draws_between_80_and_100_percent() -> None:
    prompts = setup_of(DENSE).request.prompts
    assert prompts.mean_tokens == pytest.approx(0.9 * 128)
    assert prompts.mean_tokens * (1 + prompts.spread) == pytest.approx(128)
    named = setup_of(DENSE, silicon_data_source="source_file=meta-llama_Llama.csv").request
    assert (named.prompts.mean_tokens, named.prompts.shape) == (128, "fixed")


@pytest.mark.parametrize(
    ("tp", "dp", "moe_tp", "moe_ep", "expected"),
    [
        (4, 1, 4, 1, Degrees(4, 1, 1)),
        (8, 1, 1, 8, Degrees(8, 1, 8)),
        (64, 1, 8, 8, Degrees(8, 1, 8)),  # 8 devices, stated as 8 · 8
        (1, 64, 8, 8, Degrees(8, 8, 8)),
        (4, 1, 2, 2, Degrees(2, 1, 2)),
        (4, 4, 1, 16, Degrees(4, 4, 4)),
        (1, 8, 1, 8, Degrees(8, 8, 8)),
        (1, None, 1, 4, Degrees(4, 1, 4)),
    ],
)
def test_degrees_stated_twice_count_once(
    tp: int, dp: int, moe_tp: int, moe_ep: int, expected: Degrees
) -> None:
    line = Line({"tp_size": tp, "attention_dp_size": dp, "moe_tp_size": moe_tp, "moe_ep_size": moe_ep})
    assert worker_degrees(line, "") == expected


def test_formats_are_those_of_checkpoints() -> None:
    r1 = {"model_path": "deepseek-ai/DeepSeek-R1", "system": "b200_sxm", "tp_size": 8.0, "moe_tp_size": 8.0}
    assert setup_of(DENSE, **r1).request.dtype == "fp8_block"
    assert setup_of(DENSE, **r1, precision="fp4").request.dtype == "nvfp4+attention=bf16"
    assert setup_of(DENSE, precision=None, gemm_quant_mode=None).request.dtype == "bf16"
    assert setup_of(DENSE, model_path="openai/gpt-oss-120b", precision="fp4").request.dtype == "auto"


def test_two_pools_are_those_of_the_recipe_for_the_load() -> None:
    found = setup_of(POOLS)
    deployment = found.request.deployment
    assert isinstance(deployment, Disaggregated)
    stated = Stated(
        device="b200",
        framework="trtllm",
        precision="fp8",
        isl=1024,
        osl=1024,
        concurrency=4096,
        prefill_devices=8,
        decode_devices=8,
        date="2026-03-23",
    )
    (recipe, *_) = match_recipes(stated)
    assert recipe.concurrency == 4096
    assert deployment.num_devices == recipe.num_devices
    assert deployment.decode.plan.data_parallel == recipe.decode_attention_dp == 8
    assert found.request.cluster.num_devices >= deployment.num_devices


def test_stated_workers_outweigh_the_load() -> None:
    stated = setup_of(POOLS, prefill_num_workers=1.0, decode_num_workers=6.0, concurrency=96.0, isl=8192)
    assert stated.request.deployment.decode.replicas == 6


def test_lines_that_aiconfigurator_launched_have_its_launch_files_limits() -> None:
    named = {"silicon_data_source": "source_file=meta-llama_Llama.csv"}
    served = setup_of(DENSE, **named).request
    assert (served.engine.max_step_tokens, served.request_seconds) == (1664, 0.002)  # 4 + 128 + 1500, rounded
    assert setup_of(DENSE).request.engine.max_step_tokens is None
    assert setup_of(DENSE).request.request_seconds is None
    assert setup_of(DENSE, **named, backend="trtllm").request.engine.memory_fraction == 0.8
    mixed = {**named, "backend": "sglang", "backend_version": "0.5.6.post2"}
    assert setup_of(DENSE, **mixed).request.engine.policy == "vllm"
    assert setup_of(DENSE, **{**mixed, "backend_version": "0.5.1.post1"}).request.engine.policy is None


def test_no_measurement_drafts_by_a_recipe_that_came_after_it() -> None:
    def drafted(date: str) -> set[int]:
        stated = Stated(
            device="gb200",
            framework="trtllm",
            precision="fp4",
            isl=1024,
            osl=1024,
            concurrency=4,
            date=date,
        )
        return {recipe.drafted for recipe in match_recipes(stated)}

    assert drafted("2026-03-23") == {3}
    assert drafted("2025-12-19") == {0}


def test_limits_of_a_recipe_count_where_they_hold_the_load() -> None:
    wide = {"backend": "sglang", "backend_version": "0.5.8.post1", "concurrency": 512.0, "isl": 8192}
    found = setup_of(POOLS, **wide).request.engine
    (recipe, *_) = match_recipes(
        Stated(device="b200", framework="sglang", precision="fp8", isl=8192, osl=1024, concurrency=512)
    )
    assert (
        (found.max_step_tokens, found.max_sequences) == (recipe.step_tokens, recipe.sequences) == (8192, 64)
    )
    assert found.memory_fraction == recipe.memory_fraction > 0.5


def test_recipes_are_all_read() -> None:
    recipes = load_recipes()
    assert len(recipes) > 800
    assert all(recipe.num_devices > 0 and recipe.since for recipe in recipes)


def test_what_cannot_be_read_says_why() -> None:
    for change, reason in (
        ({"system": "abacus"}, "unknown device"),
        ({"model_path": "none/such"}, "incomplete: model_path"),
        ({"backend": "other"}, "unsupported operation"),
        ({"concurrency": None, "batch_size": None}, "incomplete: batch_size"),
        ({"precision": "fp3"}, "impossible value"),
    ):
        with pytest.raises(UnreadableError) as error:
            setup_of(DENSE, **change)
        assert error.value.reason == reason


def test_halves_depend_on_the_configuration_alone() -> None:
    one, other = setup_of(DENSE), setup_of(DENSE, concurrency=8.0, isl=8192, id="z")
    assert one.configuration == other.configuration
    assert half_of(one.configuration) == half_of(other.configuration)
    halves = {half_of((str(number),)) for number in range(20)}
    assert halves == {"fitted", "reported"}
