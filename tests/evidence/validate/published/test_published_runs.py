"""Lines of published training runs → what was run, and on what."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from published_lines import FSDP, LORA, MIXTURE, NEMO, PLAYBOOK, VTRAIN, published_folder

from perfcast.evidence.validate.published.cases import PublishedCase, read_published_cases
from perfcast.evidence.validate.published.runs import PublishedRun
from perfcast.units import GIGA


def read_one(tmp_path: Path, line: dict[str, Any]) -> PublishedCase:
    (case,) = read_published_cases([published_folder(tmp_path, line)])
    return case


def run_of(tmp_path: Path, line: dict[str, Any]) -> PublishedRun:
    case = read_one(tmp_path, line)
    assert case.skipped is None
    assert case.run is not None
    return case.run


def test_vtrain_is_megatron_deepspeed_with_unfused_attention_and_a_padded_vocabulary(tmp_path: Path) -> None:
    run = run_of(tmp_path, VTRAIN).run
    assert (run.training.framework, run.training.attention, run.training.dtype) == (
        "deepspeed",
        "math",
        "fp16",
    )
    assert run.model.vocab_size == 50688  # 50,257 rounded up to a multiple of 128 · 4
    assert (run.plan.recompute, run.plan.num_micro_batches, run.plan.overlaps_gradients) == ("full", 2, False)
    assert run.model.has_dropout


def test_a_pipeline_of_nemo_is_interleaved_by_single_layers_where_not_stated(tmp_path: Path) -> None:
    run = run_of(tmp_path, NEMO).run
    assert (run.plan.schedule, run.plan.virtual_stages_per_rank) == ("interleaved", 20)
    assert any("recomputation is not stated" in text for text in run.assumptions)


@pytest.mark.parametrize(
    ("changes", "compiles"),
    [({}, False), ({"dtype": "bf16, torch.compile"}, True), ({"dtype": "bf16, no torch.compile"}, False)],
)
def test_torchtitan_is_a_program_of_its_own_and_compiled_where_a_line_says_so(
    tmp_path: Path, changes: dict[str, str], compiles: bool
) -> None:
    training = run_of(tmp_path, FSDP | {"id": "other-1", "source": "torchtitan"} | changes).run.training
    assert (training.framework, training.compiles) == ("torchtitan", compiles)


def test_nemo_sums_gradients_in_bf16_and_megatron_core_in_fp32(tmp_path: Path) -> None:
    assert run_of(tmp_path, NEMO).run.training.framework == "nemo"
    core = NEMO | {"id": "mcore-1", "source": "Megatron Core"}
    assert run_of(tmp_path, core).run.training.framework == "megatron"


def test_stated_virtual_stages_count(tmp_path: Path) -> None:
    assert run_of(tmp_path, NEMO | {"vpp": 5}).run.plan.virtual_stages_per_rank == 5


def test_embedding_and_head_count_as_layers_where_only_that_divides(tmp_path: Path) -> None:
    plan = run_of(tmp_path, NEMO | {"layers": 30, "vpp": 8}).run.plan
    assert (len(plan.stage_layers), sum(plan.stage_layers), plan.stage_layers[0]) == (32, 30, 0)


def test_hybrid_sharding_shards_inside_a_node(tmp_path: Path) -> None:
    run = run_of(tmp_path, FSDP)
    assert (run.run.plan.zero_stage, run.run.plan.num_shards, run.run.training.flash_version) == (3, 8, 2)
    assert run.cluster.levels[-1].link.bytes_per_second == pytest.approx(400 * GIGA / 8 / 8)


def test_a_lora_run_freezes_its_weights_and_its_compute_adapters_make_the_network(tmp_path: Path) -> None:
    run = run_of(tmp_path, LORA)
    assert run.trains_adapters
    assert not run.replays_graphs
    assert run.cluster.levels[-1].link.bytes_per_second == pytest.approx(50 * GIGA)


def test_experts_come_from_the_catalog(tmp_path: Path) -> None:
    experts = run_of(tmp_path, MIXTURE).run.model.experts
    assert experts is not None
    assert (experts.num_experts, experts.experts_per_token) == (8, 2)


def test_experts_that_nothing_describes_are_a_reason_to_skip(tmp_path: Path) -> None:
    assert read_one(tmp_path, MIXTURE | {"model": "Unheard-of"}).skipped == "incomplete: num_experts"


def test_the_playbooks_label_is_its_throughput(tmp_path: Path) -> None:
    case = read_one(tmp_path, PLAYBOOK | {"step_time_s": 99.0})
    assert case.measured_seconds == pytest.approx(256 * 4096 / (40149.9 * 8))


@pytest.mark.parametrize("column", ["layers", "tp", "micro_batch", "precision", "global_batch"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    case = read_one(tmp_path, VTRAIN | {column: None})
    assert (case.skipped, case.is_complete) == (f"incomplete: {column}", False)


def test_an_ambiguous_precision_is_incomplete(tmp_path: Path) -> None:
    assert read_one(tmp_path, VTRAIN | {"precision": "ambiguous"}).skipped == "incomplete: precision"


def test_degrees_that_do_not_multiply_are_impossible(tmp_path: Path) -> None:
    assert read_one(tmp_path, VTRAIN | {"dp": 3}).skipped == "impossible value"


def test_an_unknown_device_is_named_so(tmp_path: Path) -> None:
    assert read_one(tmp_path, VTRAIN | {"device": "abacus", "gpu": "abacus"}).skipped == "unknown device"


def test_notes_are_not_read(tmp_path: Path) -> None:
    plain, noted = (
        run_of(tmp_path / "a", PLAYBOOK),
        run_of(tmp_path / "b", PLAYBOOK | {"notes": "grad-acc 3"}),
    )
    assert replace(plain.run, assumptions=()) == replace(noted.run, assumptions=())


def test_a_rack_of_one_domain_takes_what_divides(tmp_path: Path) -> None:
    line = NEMO | {"gpu": "GB200 NVL72", "device": "gb200", "gpus_per_node": 4, "num_gpus": 128, "dp": 4}
    cluster = run_of(tmp_path, line).cluster
    assert [level.size for level in cluster.levels] == [64, 2]


def test_an_h100_with_96_gb_lies_between_two_devices(tmp_path: Path) -> None:
    line = NEMO | {"gpu": "H100 96GB HBM2e (500 W)", "gpu_mem_gb": "96"}
    assert run_of(tmp_path / "a", line).slower_device == "h100-nvl"
    assert run_of(tmp_path / "b", NEMO).slower_device is None
