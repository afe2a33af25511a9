from __future__ import annotations

import pytest

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.precision import (
    check_device,
    formats_of,
    inference_precision,
    on_device,
    spelled_dtype,
    training_precision,
)
from perfcast.errors import PlanError, UnknownNameError


def test_a_training_in_a_narrow_format_keeps_bf16_between_its_products():
    for name in ("fp8", "fp8_block", "mxfp8", "nvfp4"):
        found = training_precision(name)
        assert (found.element, found.outside) == (DType.BF16, "bf16")
        assert found.products.is_narrow
    assert training_precision("fp16").element is DType.FP16
    assert not training_precision("tf32").products.is_narrow


def test_weight_only_formats_run_wherever_16_bits_do():
    weight_only = {name for name, form in FORMATS.items() if form.is_weight_only}
    for device in ("v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm", "mi300x"):
        assert weight_only <= set(formats_of(load_device(device)))


def test_a_device_without_bf16_keeps_fp16_between_products():
    v100 = on_device(inference_precision("int4_wo"), load_device("v100-sxm2-32gb"))
    assert (v100.element, v100.arithmetic, v100.cache_format) == (DType.FP16, DType.FP16, "fp16")
    a100 = inference_precision("int4_wo")
    assert on_device(a100, load_device("a100-sxm-80gb")) is a100
    assert a100.arithmetic is DType.BF16
    assert inference_precision("nvfp4").arithmetic is DType.FP4


def test_a_format_that_a_device_lacks_is_an_error_that_names_what_it_has():
    with pytest.raises(PlanError, match=r"a100-sxm-80gb cannot multiply in fp8; it has .*int8.*--dtype"):
        check_device(load_device("a100-sxm-80gb"), "fp8")
    with pytest.raises(PlanError, match="h100-sxm cannot multiply in mxfp8"):
        check_device(load_device("h100-sxm"), "mxfp8")
    for name in ("fp8", "fp8_block", "mxfp8", "nvfp4", "mxfp4"):
        check_device(load_device("b200"), name)


def test_parts_of_a_layer_may_be_in_another_format_than_its_experts():
    precision = inference_precision("nvfp4+attention=bf16+mlp=fp8_blockwise")
    assert (precision.format, precision.format_of("attention")) == ("nvfp4", "bf16")
    assert precision.format_of("mlp") == "fp8_block"
    assert precision.name == "nvfp4+attention=bf16+mlp=fp8_block"
    assert inference_precision(precision.name) == precision


def test_a_part_in_the_format_of_all_is_not_named():
    assert inference_precision("fp8+attention=fp8") == inference_precision("fp8")
    assert spelled_dtype("W4A16+mlp=int4") == "int4_wo"


def test_a_part_that_no_layer_has_is_an_error_that_names_those_it_has():
    with pytest.raises(UnknownNameError, match="attention, mlp"):
        inference_precision("nvfp4+atention=bf16")


def test_experts_in_mxfp4_take_narrow_activations_where_units_scale_blocks():
    asked = inference_precision("w4a16_mxfp4+attention=bf16+mlp=bf16")
    assert on_device(asked, load_device("b200-sxm")).format == "w4a8_mxfp4_mxfp8"
    assert on_device(asked, load_device("h200-sxm")) == asked
    throughout = inference_precision("w4a16_mxfp4")
    assert on_device(throughout, load_device("b200-sxm")) == throughout
