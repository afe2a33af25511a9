from __future__ import annotations

import pytest

from perfcast.core.dtype import DType
from perfcast.core.formats import CACHE_FORMATS, FORMATS, SPELLINGS, Stored, arithmetic_of, spelled
from perfcast.errors import UnknownNameError


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("bf16", 16),
        ("fp8", 8),
        ("fp8_block", 8 + 32 / 128**2),
        ("mxfp8", 8 + 8 / 32),
        ("nvfp4", 4 + 8 / 16),
        ("mxfp4", 4 + 8 / 32),
        ("int8_wo", 8),
        ("int4_wo", 4 + 16 / 128),
        ("nf4", 4 + 8 / 64 + 32 / (64 * 256)),
    ],
)
def test_a_weight_takes_its_bits_and_its_share_of_a_scale(name: str, bits: float):
    assert FORMATS[name].weight.bits == bits


def test_scales_are_counted_in_whole_bytes():
    stored = Stored(DType.FP8, 32, 8)
    assert stored.bytes_of(64) == 64 + 2
    assert stored.bytes_of(65) == 65 + 3
    assert Stored(DType.FP4, 16, 8).bytes_of(32) == 16 + 2
    assert Stored(DType.FP8).scale_bytes_of(10**6) == 0


def test_weight_only_formats_multiply_in_16_bits():
    weight_only = {name for name, form in FORMATS.items() if form.is_weight_only}
    assert weight_only == {"int8_wo", "int4_wo", "int4_wo_g32", "nf4", "w4a16_mxfp4"}
    assert {arithmetic_of(name) for name in weight_only} == {DType.BF16}


def test_every_spelling_is_of_a_format_and_of_none_itself():
    assert set(SPELLINGS.values()) <= FORMATS.keys()
    assert not SPELLINGS.keys() & FORMATS.keys()
    assert set(CACHE_FORMATS) <= FORMATS.keys()


def test_formats_are_found_however_they_are_written():
    assert [spelled(name) for name in ("BF16", "fp8-block", "int4", "w8a8", "float16")] == [
        "bf16", "fp8_block", "int4_wo", "int8", "fp16",
    ]  # fmt: skip
    with pytest.raises(UnknownNameError, match="unknown dtype 'fp9'"):
        spelled("fp9", "dtype")


def test_every_format_and_element_type_says_what_multiplies():
    assert arithmetic_of("fp64") is DType.FP64
    assert arithmetic_of("nvfp4") is DType.FP4
    with pytest.raises(UnknownNameError):
        arithmetic_of("fp9")
