from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from memory_tables import (
    BLOOM,
    FAILURE,
    GIB,
    GOLDEN,
    MIB,
    PART,
    PLAYBOOK,
    SIMUMAX,
    memory_folder,
    write_tables,
)

from perfcast.core.plan import Plan
from perfcast.errors import InputError
from perfcast.evidence.validate.memory.case import MemoryCase
from perfcast.evidence.validate.memory.outcomes import needs_at_least
from perfcast.evidence.validate.memory.rows import configuration_of, read_memory_cases
from perfcast.evidence.validate.runs.lines import Run


def read_one(tmp_path: Path, table: str, line: dict[str, Any]) -> list[MemoryCase]:
    return read_memory_cases([write_tables(tmp_path, **{table: [line]})])


def run_of(tmp_path: Path, table: str, line: dict[str, Any]) -> Run:
    run = read_one(tmp_path, table, line)[0].run
    assert run is not None
    return run


def reasons(cases: list[MemoryCase]) -> set[str | None]:
    return {case.skipped for case in cases}


# ---- what was run ------------------------------------------------------------------------------------


def test_the_playbook_trains_with_nanotron_and_counts_accumulation_in_its_notes(tmp_path):
    run = run_of(tmp_path, "training", PLAYBOOK)
    assert (run.training.framework, run.training.optimizer) == ("nanotron", "adamw")
    assert (run.plan.num_micro_batches, run.plan.micro_batch_size, run.plan.zero_stage) == (16, 2, 0)
    assert run.model.ties_embeddings
    assert run.model.is_gated
    assert run.model.vocab_size == 131072


def test_the_playbooks_wide_models_do_not_tie_embeddings(tmp_path):
    assert not run_of(tmp_path, "training", PLAYBOOK | {"ffn_hidden": 28672}).model.ties_embeddings


def test_the_playbook_is_sequence_parallel_wherever_it_is_tensor_parallel(tmp_path):
    assert run_of(tmp_path, "training", PLAYBOOK | {"tp": 8, "dp": 1}).plan.sequence_parallel


def test_bloom_pads_its_vocabulary_over_the_tensor_parallel_ranks(tmp_path):
    run = run_of(tmp_path, "training", BLOOM)
    assert run.model.vocab_size == 250_368  # 489 · 128 · 4
    assert (run.training.framework, run.plan.recompute, run.plan.num_micro_batches) == (
        "deepspeed",
        "full",
        64,
    )
    assert (run.model.ffn_hidden_size, run.model.positions) == (4 * 14336, "none")


def test_simumax_fuses_the_loss_where_the_case_says_so(tmp_path):
    fused = run_of(tmp_path, "peak_memory", SIMUMAX)
    plain = run_of(tmp_path / "2", "peak_memory", SIMUMAX | {"notes": "case=llama3_70b_mbc4; other"})
    assert fused.training.fuses_cross_entropy
    assert not plain.training.fuses_cross_entropy
    assert fused.plan.zero_stage == 1
    assert fused.model.vocab_size == 128_384  # 128256 and the end of documents, to a multiple of 128


def test_a_published_mixture_of_experts_fills_empty_columns_and_keeps_one_dense_layer(tmp_path):
    line = SIMUMAX | {
        "model": "deepseek-v3",
        "layers": 4,
        "hidden": None,
        "heads": None,
        "vocab": None,
        "ep": 4,
    }
    model = run_of(tmp_path, "peak_memory", line).model
    assert model.latent_attention is not None
    assert model.experts is not None
    assert (model.num_layers, model.experts.num_dense_layers, model.experts.num_experts) == (4, 1, 256)
    assert model.num_prediction_layers == 0


def test_experts_of_a_model_that_nobody_knows_are_not_made_up(tmp_path):
    cases = read_one(tmp_path, "peak_memory", SIMUMAX | {"model": "abacus-moe", "ep": 4})
    assert reasons(cases) == {"incomplete: num_experts"}


def test_golden_values_take_the_vocabulary_of_gpt2_padded_to_128_on_each_rank(tmp_path):
    run = run_of(tmp_path, "megatron_golden_values", GOLDEN)
    assert run.model.vocab_size == 50_432  # 197 · 128 · 2
    assert run.model.has_dropout
    assert run.model.positions == "learned"
    assert (run.training.framework, run.training.attention) == ("megatron", "math")
    assert "50432" in run.assumptions[0]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"test_case": "gpt3_tp1_pp2_rope_embeddings"}, {"positions": "rope", "max_positions": 0}),
        ({"test_case": "gpt3_disable_bias_linear"}, {"has_linear_bias": False}),
        ({"test_case": "gpt3_qk_layernorm_test_mode"}, {"has_head_norms": True}),
        ({"family": "bert", "test_case": "bert_mcore"}, {"is_causal": False, "vocab_size": 30_720}),
        ({"swiglu": "True"}, {"is_gated": True, "activation": "silu"}),
        ({"untie_embeddings": "True"}, {"ties_embeddings": False}),
    ],
)
def test_what_a_test_case_is_called_tells_what_it_changes(tmp_path, change, found):
    model = run_of(tmp_path, "megatron_golden_values", GOLDEN | change).model
    assert {name: getattr(model, name) for name in found} == found


def test_experts_of_megatron_are_cut_as_the_rest_unless_stated(tmp_path):
    line = GOLDEN | {"num_experts": 8, "moe_topk": 2, "ep": 2}
    run = run_of(tmp_path, "megatron_golden_values", line)
    assert run.plan.expert_tensor_parallel == 2
    assert run.model.experts is not None
    assert run.model.experts.ffn_hidden_size == 2048


@pytest.mark.parametrize(
    ("sharding", "stage"),
    [
        ("ddp", 0),
        ("dist-optimizer+overlap-grad-reduce", 1),
        ("dist-optimizer+megatron-fsdp optim_grads_params", 3),
    ],
)
def test_megatrons_sharding_is_a_zero_stage(tmp_path, sharding, stage):
    assert (
        run_of(tmp_path, "megatron_golden_values", GOLDEN | {"sharding": sharding}).plan.zero_stage == stage
    )


def test_galvatrons_strategy_is_pipeline_tensor_data_and_marks(tmp_path):
    run = run_of(tmp_path, "galvatron_llama2_7b_bf16", PART | {"strategy": "2_2_2_c_sp"})
    assert (run.plan.recompute, run.plan.sequence_parallel, run.plan.zero_stage) == ("full", True, 3)
    assert (run.plan.micro_batch_size, run.model.num_layers) == (4, 2)


# ---- what was measured -------------------------------------------------------------------------------


def measured(cases: list[MemoryCase]) -> dict[str, tuple[Any, ...]]:
    return {
        case.metric: (case.measured_bytes, case.measured_fits, case.measured_stage, case.measured_by)
        for case in cases
    }


def test_the_playbook_measures_the_first_stage_in_gib(tmp_path):
    assert measured(read_one(tmp_path, "training", PLAYBOOK)) == {
        "allocated": (50 * GIB, None, "first", "allocator"),
        "outcome": (None, True, "peak", "allocator"),
    }


def test_bloom_measures_what_nvidia_smi_shows_in_thousands_of_mib(tmp_path):
    found = measured(read_one(tmp_path, "training", BLOOM))
    assert found["reserved"] == (60_000 * MIB, None, "peak", "nvidia-smi")


def test_simumax_measures_allocated_and_reserved_over_all_ranks(tmp_path):
    found = measured(read_one(tmp_path, "peak_memory", SIMUMAX))
    assert found["allocated"] == (int(66.5 * GIB), None, "peak", "allocator")
    assert found["reserved"] == (int(70.75 * GIB), None, "peak", "allocator")


def test_golden_values_are_of_the_last_stage_at_the_peak_and_after_a_step(tmp_path):
    assert measured(read_one(tmp_path, "megatron_golden_values", GOLDEN)) == {
        "allocated": (2000 * MIB, None, "last", "allocator"),
        "allocated_steady": (500 * MIB, None, "last", "allocator"),
    }


def test_a_part_is_of_the_stage_of_its_rank(tmp_path):
    assert measured(read_one(tmp_path, "galvatron_llama2_7b_bf16", PART)) == {
        "model_states": (round(900.5 * MIB), None, "last", "allocator")
    }


def test_notes_and_measured_columns_are_no_configuration():
    kept = configuration_of(PLAYBOOK | GOLDEN | SIMUMAX | PART)
    assert (
        not {"notes", "peak_mem_gb", "mfu", "step_time_s", "mem_max_allocated_bytes", "value_MB"}
        & kept.keys()
    )
    assert {"layers", "tp", "zero_stage", "gpu", "strategy", "test_case"} <= kept.keys()


# ---- what is skipped ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "line", "reason"),
    [
        ("training", BLOOM | {"layers": None}, "incomplete: layers"),
        ("training", PLAYBOOK | {"gpu": "abacus 3", "device": None}, "unknown device"),
        ("training", PLAYBOOK | {"num_gpus": 9}, "impossible value"),
        ("training", PLAYBOOK | {"peak_mem_gb": -1.0}, "impossible value"),
        ("megatron_golden_values", GOLDEN | {"family": "t5"}, "unsupported operation"),
        ("megatron_golden_values", GOLDEN | {"test_case": "gpt_grpo_tp4"}, "unsupported plan"),
        ("megatron_golden_values", GOLDEN | {"num_gpus": None}, "incomplete: num_gpus"),
        ("megatron_golden_values", GOLDEN | {"gpu": None}, "incomplete: gpu"),
        ("peak_memory", SIMUMAX | {"source_repo": "pytorch/torchtune"}, "unsupported plan"),
        ("peak_memory", SIMUMAX | {"source_repo": "x/litgpt", "layers": None}, "incomplete: layers"),
    ],
)
def test_a_line_that_cannot_be_forecast_says_why(tmp_path, table, line, reason):
    cases = read_one(tmp_path, table, line)
    assert cases
    assert reason in reasons(cases)
    assert all(case.run is None for case in cases if case.skipped and case.skipped != "impossible value")


def test_lines_without_a_measured_memory_are_no_cases(tmp_path):
    place = write_tables(tmp_path, training=[PLAYBOOK, PLAYBOOK | {"peak_mem_gb": None}])
    assert {case.row for case in read_memory_cases([place])} == {0}


def test_a_measurement_in_two_tables_is_marked_in_the_later_one(tmp_path):
    again = PLAYBOOK | {key: SIMUMAX[key] for key in SIMUMAX.keys() & PLAYBOOK.keys()}
    again |= {"id": "simumax-b200-1", "device": "b200", "ep": 1, "kv_heads": 8}
    place = write_tables(tmp_path, peak_memory=[SIMUMAX], training=[again])
    marked = {
        case.metric: case.duplicate_of for case in read_memory_cases([place]) if case.table == "training"
    }
    assert marked["allocated"] == "peak_memory:0"


def test_golden_values_listed_elsewhere_are_duplicates_by_their_file(tmp_path):
    copied = SIMUMAX | {
        "source_repo": "NVIDIA/Megatron-LM",
        "source_path": GOLDEN["source_path"],
        "vocab": None,
    }
    place = write_tables(tmp_path, megatron_golden_values=[GOLDEN], peak_memory=[copied])
    (case,) = [case for case in read_memory_cases([place]) if case.table == "peak_memory"]
    assert (case.duplicate_of, case.skipped) == ("megatron_golden_values:0", "incomplete: vocab")


def test_tables_may_lie_anywhere_and_others_are_passed_over(tmp_path):
    memory_folder(tmp_path / "all")
    (tmp_path / "all" / "gemm_h100.csv").write_text("m,n\n1,2\n")
    whole = read_memory_cases([tmp_path / "all"])
    names = ("training", "out_of_memory", "peak_memory", "megatron_golden_values", "galvatron_llama2_7b_bf16")
    parts = read_memory_cases([tmp_path / "all" / f"{name}.csv" for name in names])
    assert parts == whole
    assert set(Counter(case.table for case in whole)) == set(names)


def test_a_place_without_a_table_of_memory_is_refused(tmp_path):
    (tmp_path / "gemm_h100.csv").write_text("m,n\n1,2\n")
    with pytest.raises(InputError, match="no table of measured memory"):
        read_memory_cases([tmp_path])
    with pytest.raises(InputError, match="'gemm_h100' is no known table"):
        read_memory_cases([tmp_path / "gemm_h100.csv"])


# ---- failures that a larger run contradicts ----------------------------------------------------------


def test_a_failure_is_contradicted_by_an_equal_or_larger_run_that_fitted(tmp_path):
    larger = PLAYBOOK | {"micro_batch": "4", "notes": "grad-acc 8"}
    lines = [FAILURE, FAILURE | {"micro_batch": 8, "grad_acc": 4}]
    place = write_tables(tmp_path, training=[larger], out_of_memory=lines)
    found = [case.contradicted_by for case in read_memory_cases([place]) if case.measured_fits is False]
    assert found == ["training:0", None]


def test_another_model_contradicts_nothing(tmp_path):
    other = PLAYBOOK | {"layers": 28, "micro_batch": "64", "notes": "grad-acc 8"}
    place = write_tables(tmp_path, training=[other], out_of_memory=[FAILURE])
    assert {case.contradicted_by for case in read_memory_cases([place])} == {None}


@pytest.mark.parametrize(
    "more",
    [{"tensor_parallel": 2}, {"pipeline_parallel": 2}, {"data_parallel": 16}, {"zero_stage": 1}],
)
def test_a_plan_that_shards_more_in_any_respect_needs_less(more):
    plain = {"data_parallel": 8, "micro_batch_size": 4, "num_micro_batches": 8}
    assert needs_at_least(Plan(**plain), Plan(**plain))
    assert needs_at_least(Plan(**plain), Plan(**plain | more))
    assert not needs_at_least(Plan(**plain | more), Plan(**plain))


def test_a_pipeline_with_few_micro_batches_keeps_less():
    full = Plan(pipeline_parallel=4, num_micro_batches=8)
    short = Plan(pipeline_parallel=4, num_micro_batches=2)
    assert needs_at_least(full, short)
    assert not needs_at_least(short, full)


def test_blooms_runs_before_its_bf16_optimizer_count_as_fp16(tmp_path):
    early = run_of(tmp_path / "1", "training", BLOOM | {"dtype": "fp16/bf16 (pre BF16-optimizer)"})
    late = run_of(tmp_path / "2", "training", BLOOM | {"dtype": "bf16 + fp32 grad-acc optimizer"})
    assert (early.training.dtype, late.training.dtype) == ("fp16", "bf16")
