from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.training import FRAMEWORKS, Training
from perfcast.errors import CatalogError, PlanError, UnknownNameError
from perfcast.frameworks.load import (
    framework_names,
    load_framework,
    load_inference_profiles,
    load_training_profile,
    parse_framework,
    profile_folder,
    training_profile_of,
)
from perfcast.units import MICRO, MILLI

TABLED = tuple(name for name in FRAMEWORKS if name != "pytorch")


@pytest.mark.parametrize("name", framework_names())
def test_a_framework_has_a_title_and_trains_or_serves(name: str):
    profile = load_framework(name)
    assert profile.title
    assert profile.training or profile.inference


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_that_trains_has_every_part_with_its_source(framework: str):
    training = load_training_profile(framework)
    parts = [training.kernels, training.host, training.support]
    parts += [training.memory] if framework != "pytorch" else []
    assert all(":" in part.source for part in parts if part is not None)
    assert MICRO / 2 < training.host.launch_seconds < MILLI


def test_compiling_fuses_elementwise_kernels_of_fsdp2_and_keeps_no_loss_in_fp32():
    eager = training_profile_of(Training(framework="torchtitan"))
    compiled = training_profile_of(Training(framework="torchtitan", compiles=True))
    assert (eager.kernels.fuses_activation, compiled.kernels.fuses_activation) == (False, True)
    assert (eager.kernels.rope, compiled.kernels.rope) == ("complex", "fused")
    assert (eager.memory_of("bf16").softmax_bytes, compiled.memory_of("bf16").softmax_bytes) == (10, 2)
    assert compiled.host == eager.host


def test_kernels_that_are_fused_as_they_are_cannot_be_compiled():
    with pytest.raises(PlanError, match="fused as they are"):
        training_profile_of(Training(framework="megatron", compiles=True))


def test_every_profile_of_training_has_its_word():
    assert {name for name in framework_names() if load_framework(name).training} == set(FRAMEWORKS)


def test_torchtitan_is_fsdp2_with_settings_of_its_own():
    own, base = load_training_profile("torchtitan"), load_training_profile("fsdp")
    assert (own.selective, base.selective) == ("operators", "operators")
    assert (own.kernels.keeps_wide_gradients, base.kernels.keeps_wide_gradients) == (True, False)
    assert own.memory_of("bf16").sent_gradient_bytes == 4


def test_serving_frameworks_replay_their_own_kernels_and_pytorch_issues_those_of_others():
    profiles = load_inference_profiles()
    assert tuple(profiles) == ("pytorch", "sglang", "trtllm", "vllm")
    assert all(
        profiles[name].replays_graphs and not profiles[name].kernels for name in profiles.keys() - {"pytorch"}
    )
    assert set(profiles["pytorch"].kernels.values()) == {"sglang", "vllm"}


def test_a_name_without_a_profile_is_an_error_that_lists_close_ones():
    with pytest.raises(UnknownNameError, match="megatron"):
        load_training_profile("megatrom")
    with pytest.raises(UnknownNameError, match="unknown framework 'vllm'"):
        load_training_profile("vllm")
    with pytest.raises(UnknownNameError, match="torchtitan"):
        load_framework("torchtitanic")


# ---- memory ------------------------------------------------------------------------------------------------


def test_plain_pytorch_has_no_memory_profile_but_a_closed_form_of_its_own():
    with pytest.raises(PlanError, match="closed form of its own"):
        load_training_profile("pytorch").memory_of("bf16")


@pytest.mark.parametrize("framework", TABLED)
@pytest.mark.parametrize("dtype", ["fp32", "tf32"])
def test_one_format_has_one_copy_of_four_bytes(framework: str, dtype):
    memory = load_training_profile(framework).memory_of(dtype)
    assert (memory.weight_bytes, memory.compute_weight_bytes, memory.gradient_bytes) == (4, 4, 4)
    assert not memory.has_master_weights
    assert memory.local_gradient_bytes == 0


@pytest.mark.parametrize(
    ("framework", "weight", "gradient", "master"),
    [("megatron", 2, 4, True), ("nanotron", 2, 4, True), ("deepspeed", 2, 4, True), ("fsdp", 4, 4, False)],
)
def test_mixed_precision_keeps_one_fp32_copy_of_a_weight_somewhere(
    framework: str, weight: int, gradient: int, master: bool
):
    memory = load_training_profile(framework).memory_of("bf16")
    assert (memory.weight_bytes, memory.gradient_bytes, memory.has_master_weights) == (
        weight,
        gradient,
        master,
    )


def test_deepspeed_sums_fp16_gradients_in_fp16():
    assert load_training_profile("deepspeed").memory_of("fp16").gradient_bytes == 2


def test_only_transformer_engine_keeps_dummy_gradients_and_a_second_workspace():
    with_engine, without = (
        load_training_profile(f).memory_of("bf16") for f in ("megatron", "megatron_local")
    )
    assert (with_engine.keeps_dummy_gradients, with_engine.has_second_workspace) == (True, True)
    assert (without.keeps_dummy_gradients, without.has_second_workspace) == (False, False)
    assert with_engine.other_bytes == without.other_bytes > 0


# ---- files -------------------------------------------------------------------------------------------------


def written(tmp_path: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of a shipped file with other words in it."""
    text = (profile_folder() / f"{name}.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    path = tmp_path / f"{name}.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_says_only_how_it_differs_from_the_one_that_it_is_like(tmp_path: Path):
    written(
        tmp_path, "megatron", ("bucket_parameters = { value = 40_000_000", "bucket_parameters = { value = 7")
    )
    like = parse_framework(written(tmp_path, "megatron_local")).training
    assert like is not None
    assert (like.kernels.bucket_parameters, like.kernels.rope) == (7, "halves")
    own, base = (load_training_profile(name).host for name in ("megatron_local", "megatron"))
    assert like.host.launch_seconds == own.launch_seconds != base.launch_seconds


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("fuses_norm = true\n", "", r"\[kernels\]: fuses_norm missing"),
        ("fuses_norm", "fuses_norms", "unknown key fuses_norms"),
        ("fuses_norm = true", "fuses_norm = 1", "1 is no bool"),
        ('rope = "fused"', 'rope = "spun"', "'spun' is none of fused, complex, halves"),
        ('"gpipe"]', '"gpipes"]', "'gpipes' is none of 1f1b"),
        ("launch_seconds = { value = ", "launch_seconds = { value = -", "not a positive number"),
        ('us", source = "published" }\nfixed', 'hour", source = "published" }\nfixed', "unknown unit 'hour'"),
        ('[host]\nsource = "published"', '[host]\nsource = "hearsay"', "'hearsay' is not in the file"),
        ("launch_seconds = ", "pace = ", "unknown key pace"),
        ('title = "nanotron"', "", "title missing"),
        ("[sources]", "[prices]\n[sources]", "unknown: prices"),
        ("balances_stages = true", "", r"\[training\] has"),
    ],
)
def test_a_file_that_leaves_something_out_is_refused(tmp_path: Path, old: str, new: str, says: str):
    with pytest.raises(CatalogError, match=says):
        parse_framework(written(tmp_path, "nanotron", (old, new)))


@pytest.mark.parametrize("name", framework_names())
def test_every_figure_of_the_types_has_a_value_or_a_default(name: str):
    training = load_framework(name).training
    for part in (training.kernels, training.host) if training else ():
        given = [field.name for field in fields(part) if field.default is not None]
        assert all(getattr(part, name) is not None for name in given)


def test_a_training_of_an_unknown_framework_is_refused():
    with pytest.raises(UnknownNameError, match="nanotron"):
        Training(framework="nanotrom")  # type: ignore[arg-type]


def test_sums_take_the_norm_along_where_a_program_has_a_kernel_for_the_device() -> None:
    profiles = load_inference_profiles()
    hopper, blackwell = (load_device(name) for name in ("h100-sxm", "b200-sxm"))
    on_hopper, on_blackwell = (profiles["vllm"].on_device(device) for device in (hopper, blackwell))
    assert on_blackwell.fuses_all_reduce(8, 1024**2)
    assert not on_hopper.fuses_all_reduce(8, 1024**2)
    assert on_hopper.fuses_all_reduce(2, 1024**2)
    assert not on_blackwell.fuses_all_reduce(16, 1024)
    assert profiles["trtllm"].on_device(hopper).fuses_all_reduce(8, 1024**2)
    assert not profiles["sglang"].on_device(hopper).fuses_all_reduce(8, 1024)
