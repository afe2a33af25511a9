"""Formats and libraries of which nobody measured a kernel, and the measured ones that stand for them.

A stand-in has the same arithmetic and elements of the same width; what differs is how many elements share a
scale. Its price is called extrapolated, and its interval is wider.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfcast.core.dtype import DType
from perfcast.core.kernel import KernelFamily
from perfcast.core.operation import Operation, OperationKind

#: How much wider the interval of a stand-in is, on either side: what measured formats of one arithmetic and
#: width differ by (fp8 by tensor, by token and by block in tables of aiconfigurator: 7–28 %).
WIDENING = 1.25
#: The same for convolutions in TF32, for which steps in 16 bits stand: of NVIDIA's example programs in TF32
#: half lay inside with the factor above (``perfcast validate vision``), the others mostly slower.
WIDENING_TF32 = 1.6
_ANY = ""
_Formats = Mapping[str, str]
#: What runs another's kernels, and so is no stand-in: fp16 those of bf16; static scales those of scales that
#: are looked for, whose search is taken off (``operands``).
_SAME: Mapping[tuple[KernelFamily, str], str] = {
    **{(family, "fp16"): "bf16" for family in KernelFamily},
    (KernelFamily.PRODUCT, "fp8_static"): "fp8",
}
#: By family and vendor.
_STAND_INS: Mapping[KernelFamily, Mapping[str, _Formats]] = {
    KernelFamily.PRODUCT: {
        _ANY: {
            "fp8_token": "fp8",
            "mxfp8": "fp8",
            "nf4": "int4_wo",
            "w4a16_mxfp4": "int4_wo",
            "int4_wo_g32": "int4_wo",
        },
        "nvidia": {"int8": "sq", "mxfp4": "nvfp4"},
        "amd": {"sq": "int8", "nvfp4": "mxfp4"},
    },
    KernelFamily.EXPERTS: {
        _ANY: {
            "fp8_static": "fp8",
            "mxfp8": "fp8_block",
            "nf4": "int4_wo",
            "sq": "int8",
            "int4_wo_g32": "int4_wo",
        },
        "nvidia": {"fp8_token": "fp8", "mxfp4": "nvfp4"},
        "amd": {"nvfp4": "mxfp4"},
    },
    KernelFamily.ATTENTION: {_ANY: {"int8": "fp8", "nvfp4": "fp8"}},
}


#: vLLM's latent attention was timed with a host in it: some 150 µs however little there is to do, up to ten
#: times as long as SGLang's, which calls the same kernels (FlashMLA, CUTLASS MLA) while decoding; of long
#: prompts it takes a tenth longer than TensorRT-LLM's.
_LIBRARIES: Mapping[tuple[str, str], str] = {
    ("vllm", "mla_generation"): "sglang",
    ("vllm", "mla_context"): "trtllm",
}


#: Experts that newer versions run by kernels of another's than were timed most: on Blackwell all three call
#: FlashInfer's kernels of TensorRT-LLM's generator in NVFP4 (vLLM: flashinfer_trtllm_moe; SGLang:
#: --moe-runner-backend flashinfer_trtllm, by default for DeepSeek; TensorRT-LLM: moe backend TRTLLM), of
#: which vLLM's timings alone have no older version in them: of 256 experts 24 µs against 45 to 63 at a token.
_EXPERTS: Mapping[tuple[str, str], str] = {("sglang", "nvfp4"): "vllm", ("trtllm", "nvfp4"): "vllm"}
#: In fp8 by blocks the faster of two, as libraries choose by size: TensorRT-LLM's of few tokens were timed
#: there before newer kernels (106 µs at a token of 256 experts, SGLang's 44), its grouped products are the
#: faster for whole experts of many (8,192 tokens on 8 ranks: 0.5 ms against 1.95).
_FEW_TOKENS = 256
#: vLLM's experts in int4 were timed in Triton's kernel, which it runs no more where Marlin's does (compressed
#: tensors, GPTQ, AWQ: compressed_tensors_moe.py, CompressedTensorsWNA16MarlinMoEMethod), as SGLang does too:
#: 256 experts of 16 tokens take SGLang 107 µs on a B200, that kernel 306.
_MARLIN: Mapping[tuple[str, str], str] = {("vllm", "int4_wo"): "sglang"}
#: Products in fp8 by blocks, by library and architecture: those of vLLM were timed by its Triton kernel, 2 to
#: 10 times as long as SGLang's, and SGLang's on Blackwell as well; newer versions of both call DeepGEMM
#: (vLLM: VLLM_USE_DEEP_GEMM, on by default; SGLang: --fp8-gemm-backend auto).
_BLOCK_PRODUCTS: Mapping[tuple[str, str], str] = {
    ("vllm", "hopper"): "sglang",
    ("vllm", "blackwell"): "trtllm",
    ("sglang", "blackwell"): "trtllm",
}
_BLACKWELL = "blackwell"


def experts_library(
    library: str,
    format_name: str,
    architecture: str,
    *,
    num_tokens: float = 1.0,
    expert_parallel: float = 1.0,
) -> str:
    """Whose timings stand for a library's kernel of experts: its own, but where newer ones run another's."""
    called = (library, format_name)
    library = _MARLIN.get(called, library)
    if architecture != _BLACKWELL:
        return library
    if called == ("trtllm", "fp8_block") and num_tokens < _FEW_TOKENS and expert_parallel == 1:
        return "sglang"
    if called == ("sglang", "fp8_block") and expert_parallel > 1:
        return "trtllm"
    return _EXPERTS.get(called, library)


def products_library(library: str, format_name: str, architecture: str) -> str:
    """The same for a product."""
    return _BLOCK_PRODUCTS.get((library, architecture), library) if format_name == "fp8_block" else library


def measured_library(library: str, operation: str) -> str:
    """Whose timings stand for a library's kernel: its own, but where those are none of the device."""
    return _LIBRARIES.get((library, operation), library)


def measured_format(name: str, family: KernelFamily, vendor: str) -> str:
    """The format under which a family was measured for one, or that one itself."""
    if (family, name) in _SAME:
        return _SAME[family, name]
    tables = _STAND_INS.get(family, {})
    return tables.get(vendor, {}).get(name) or tables.get(_ANY, {}).get(name, name)


def widening_of(operation: Operation) -> float:
    """How much wider the interval of an operation is that has a stand-in."""
    is_tf32 = operation.kind is OperationKind.CONVOLUTION and operation.compute_dtype is DType.TF32
    return WIDENING_TF32 if is_tf32 else WIDENING


def has_stand_in(operation: Operation, vendor: str) -> bool:
    """Whether another format's measurements stand for an operation's, or another kernel's ('is_stand_in')."""
    stated = dict(operation.attributes)
    if stated.get("is_stand_in"):
        return True
    if operation.kind is OperationKind.CONVOLUTION:
        return operation.compute_dtype is DType.TF32  # steps in 16 bits stand for it
    if operation.kind is OperationKind.ATTENTION:
        family, names = KernelFamily.ATTENTION, (stated.get("format"), stated.get("keys_format"))
    elif operation.kind is OperationKind.GROUPED_MATMUL:
        family, names = KernelFamily.EXPERTS, (stated.get("format"), None)
    else:
        family, names = KernelFamily.PRODUCT, (stated.get("format"), None)
    return any(
        isinstance(name, str)
        and (family, name) not in _SAME
        and measured_format(name, family, vendor) != name
        for name in names
    )
