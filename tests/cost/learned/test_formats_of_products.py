"""Products in narrow formats: what stands for them, what is taken off, what they are never slower than."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfcast.catalogs.devices import load_device
from perfcast.core.dtype import DType
from perfcast.core.formats import FORMATS
from perfcast.core.kernel import KernelFamily
from perfcast.core.operation import Operation, OperationKind
from perfcast.core.precision import formats_of, inference_precision
from perfcast.core.tensor import TensorType
from perfcast.cost.learned.families.experts import FORMATS as MEASURED_EXPERTS
from perfcast.cost.learned.model import LearnedCost
from perfcast.cost.learned.relatives import has_stand_in, measured_format
from perfcast.workload.blocks.serving.kernels import cached_attention, formatted_product

DEVICES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200", "l40s", "mi300x")
FRAMEWORKS = ("pytorch", "vllm", "sglang", "trtllm")
sizes = st.sampled_from([512, 1024, 4096, 8192, 14336])


@settings(max_examples=60, deadline=None)
@given(
    device=st.sampled_from(DEVICES),
    framework=st.sampled_from(FRAMEWORKS),
    m=st.integers(1, 32),
    n=sizes,
    k=sizes,
)
def test_narrower_weights_never_take_longer_while_they_are_waited_for(
    device: str, framework: str, m: int, n: int, k: int
):
    unit = load_device(device)
    narrow = [name for name in formats_of(unit) if FORMATS[name].is_narrow]
    products = [formatted_product(m, n, k, name) for name in ("bf16", *narrow)]
    wide, *others = LearnedCost(framework).estimate(products, unit).seconds.tolist()
    assert max(others) <= wide * (1 + 1e-9)


@pytest.mark.parametrize("framework", ["vllm", "trtllm"])
@pytest.mark.parametrize("m", [1, 64, 2048])
def test_an_operand_that_comes_quantised_spares_the_products_own_quantisation(framework: str, m: int):
    plain, spared = (formatted_product(m, 8192, 8192, "fp8", is_quantised=is_) for is_ in (False, True))
    found = LearnedCost(framework).estimate([plain, spared], load_device("h100-sxm"))
    assert 0.4 * found.seconds[0] <= found.seconds[1] < found.seconds[0]
    assert (found.seconds_low <= found.seconds).all()
    assert (found.seconds <= found.seconds_high).all()


def test_a_format_that_nobody_measured_has_a_wider_interval_and_says_so():
    device = load_device("b200")
    measured, stand_in = (formatted_product(2048, 8192, 8192, name) for name in ("fp8", "mxfp8"))
    found = LearnedCost("trtllm").estimate([measured, stand_in], device)
    assert found.seconds[0] == found.seconds[1]
    width = np.log(np.array(found.seconds_high) / np.array(found.seconds_low))
    assert width[1] > width[0]
    assert found.provenance == ("interpolated", "extrapolated")


@pytest.mark.parametrize("vendor", ["nvidia", "amd", "google"])
def test_every_format_of_experts_is_measured_or_has_a_stand_in(vendor: str):
    assert {
        measured_format(name, KernelFamily.EXPERTS, vendor) for name in FORMATS
    } <= MEASURED_EXPERTS.keys()


def test_latent_attention_of_vllm_is_priced_by_kernels_that_were_timed_without_a_host():
    """A query of 16 heads of 4 sequences against 1,536 keys: SGLang's and TensorRT-LLM's take 20 µs."""
    latent = cached_attention(
        4, 16, 1, 1, 1536, 576, inference_precision("fp8_block"), value_head_size=512, is_latent=True
    )
    seconds = {
        name: float(LearnedCost(name).estimate([latent], load_device("h200-sxm")).seconds[0])
        for name in ("vllm", "sglang")
    }
    assert seconds["vllm"] == seconds["sglang"] < 40e-6


@pytest.mark.parametrize("framework", ["trtllm", "vllm", "sglang"])
@pytest.mark.parametrize("m", [1, 2048])
def test_scales_that_are_known_are_not_looked_for(framework: str, m: int):
    products = [formatted_product(m, 8192, 8192, name) for name in ("fp8", "fp8_static")]
    found = LearnedCost(framework).estimate(products, load_device("h100-sxm"))
    assert found.seconds[1] <= found.seconds[0]
    assert found.provenance == ("interpolated", "interpolated")


def test_steps_in_16_bits_stand_for_convolutions_in_tf32():
    image = TensorType((1, 8, 4, 4), DType.FP32)
    for dtype, expected in ((DType.TF32, True), (DType.FP16, False), (DType.FP32, False)):
        made = Operation(OperationKind.CONVOLUTION, "convolution", (image,), (image,), dtype, 1, 0, 1)
        assert has_stand_in(made, "nvidia") is expected
