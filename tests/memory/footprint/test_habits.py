from __future__ import annotations

import pytest

from perfcast.core.training import DTYPES, FRAMEWORKS, Training
from perfcast.errors import PlanError
from perfcast.memory.footprint.fitted import fitted_habits, load_spread
from perfcast.memory.footprint.habits import element_bytes, habits_of, product_bytes

TABLED = tuple(name for name in FRAMEWORKS if name != "pytorch")


def test_plain_pytorch_has_no_habits_but_a_closed_form_of_its_own():
    with pytest.raises(PlanError, match="closed form of its own"):
        habits_of(Training(framework="pytorch"))


@pytest.mark.parametrize("framework", TABLED)
@pytest.mark.parametrize("dtype", ["fp32", "tf32"])
def test_one_format_has_one_copy_of_four_bytes(framework: str, dtype: str):
    habits = habits_of(Training(framework=framework, dtype=dtype))
    assert (habits.weight_bytes, habits.compute_weight_bytes, habits.gradient_bytes) == (4, 4, 4)
    assert not habits.has_master_weights
    assert habits.local_gradient_bytes == 0


@pytest.mark.parametrize(
    ("framework", "weight", "gradient", "master"),
    [("megatron", 2, 4, True), ("nanotron", 2, 4, True), ("deepspeed", 2, 4, True), ("fsdp", 4, 4, False)],
)  # fmt: skip
def test_mixed_precision_keeps_one_fp32_copy_of_a_weight_somewhere(
    framework: str, weight: int, gradient: int, master: bool
):
    habits = habits_of(Training(framework=framework))
    assert (habits.weight_bytes, habits.gradient_bytes, habits.has_master_weights) == (
        weight,
        gradient,
        master,
    )


def test_deepspeed_sums_fp16_gradients_in_fp16():
    assert habits_of(Training(framework="deepspeed", dtype="fp16")).gradient_bytes == 2


def test_only_transformer_engine_keeps_dummy_gradients_and_a_second_workspace():
    with_engine, without = (habits_of(Training(framework=f)) for f in ("megatron", "megatron_local"))
    assert (with_engine.keeps_dummy_gradients, with_engine.has_second_workspace) == (True, True)
    assert (without.keeps_dummy_gradients, without.has_second_workspace) == (False, False)


def test_fp8_products_keep_one_byte_between_tensors_of_two():
    sizes = {
        dtype: (element_bytes(Training(dtype=dtype)), product_bytes(Training(dtype=dtype)))
        for dtype in DTYPES
    }
    assert sizes == {"fp32": (4, 4), "tf32": (4, 4), "bf16": (2, 2), "fp16": (2, 2), "fp8": (2, 1)}


@pytest.mark.parametrize("framework", TABLED)
def test_what_was_fitted_is_a_habit_under_its_own_name(framework: str):
    habits = habits_of(Training(framework=framework))
    fitted = fitted_habits(framework.removesuffix("_local"))
    assert {name: getattr(habits, name) for name in fitted} == fitted
    assert bool(fitted) is (framework in ("megatron", "megatron_local", "nanotron"))


@pytest.mark.parametrize("framework", [*FRAMEWORKS, "any"])
def test_every_framework_has_a_spread_in_order(framework: str):
    spread = load_spread(framework)
    assert 0 < spread.allocated_low <= 1 <= spread.allocated_high
    assert 1 <= spread.reserved <= spread.reserved_high
