"""What kind of work a kernel or operator is, by its name."""

from __future__ import annotations

import re
from functools import lru_cache

from perfcast.core.operation import OperationKind
from perfcast.traces.collectives.kernels import is_communication

_K = OperationKind

#: Names of kernels, first match. Libraries put the problem into the name, so these say more than operators.
_KERNELS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"^memcpy|copyKernel|copy_device_to_device|CatArray|direct_copy", _K.COPY),
        (r"^memset|fillfunctor|fill_kernel", _K.FILL),
        (r"flash|fmha|attention|attn|mha_|ck_tile::Fmha", _K.ATTENTION),
        (r"multi_tensor_apply|fused_?adam|_foreach|optimizer_cuda", _K.OPTIMIZER),
        (r"embedding|split_embedding|batched_unary_embeddings|bounds_check_indices", _K.EMBEDDING),
        (
            r"batch_?norm|bn_(fw|bw)|layer_?norm|rms_?norm|group_?norm|RowwiseMoments|normalization",
            _K.NORMALIZATION,
        ),
        (r"softmax", _K.SOFTMAX),
        (r"nll_loss|cross_entropy|_loss_|bce", _K.LOSS),
        (r"conv|winograd|implicit_gemm|wgrad|dgrad|im2col|col2im|miopen.*Sp3|igemm", _K.CONVOLUTION),
        (r"^bmm_|gemm|cutlass|cublas|Cijk_|splitK|nvjet|gemv|dot_kernel|matmul|wmma|xmma", _K.MATMUL),
        (r"pool", _K.POOLING),
        (r"radix|sort|topk", _K.SORT),
        (r"index|gather|scatter|triu_tril|nonzero|searchsorted", _K.INDEXING),
        (r"philox|distribution|dropout|random|bernoulli", _K.RANDOM),
        (r"reduce|scan|cumsum", _K.REDUCTION),
        (r"lstm|rnn|gru", _K.RECURRENT),
        (r"elementwise|pointwise|_poi_|functor|SubTensorOp|upsample|triton_", _K.ELEMENTWISE),
        (r"copy|transpose|nchwToNhwc|nhwcToNchw|cat_|concat", _K.COPY),
    )
)

#: Names of operators, for kernels that no rule above knows and for processors.
_OPERATORS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast_|c10d::|gloo:|nccl:", _K.COLLECTIVE),
        (r"attention|flash", _K.ATTENTION),
        (r"::_?(convolution|conv|cudnn_conv|miopen_conv|mkldnn_conv|thnn_conv)", _K.CONVOLUTION),
        (r"::(bmm|baddbmm)", _K.BATCHED_MATMUL),
        (r"::(addmm|mm|matmul|linear|mv|addmv|dot|einsum|_scaled_mm)|(Addmm|Mm|Linear)Backward", _K.MATMUL),
        (r"embedding", _K.EMBEDDING),
        (r"norm", _K.NORMALIZATION),
        (r"softmax", _K.SOFTMAX),
        (r"loss|entropy", _K.LOSS),
        (r"lstm|gru|rnn", _K.RECURRENT),
        (r"_foreach|_fused_adam|_fused_sgd|addcdiv|addcmul|Optimizer", _K.OPTIMIZER),
        (r"pool", _K.POOLING),
        (r"sort|topk|unique", _K.SORT),
        (r"index|gather|scatter|select|slice|narrow|masked|where", _K.INDEXING),
        (r"dropout|rand|bernoulli|normal_|uniform", _K.RANDOM),
        (r"::(sum|mean|max|min|amax|amin|all|any|std|var|prod|cumsum|argmax)", _K.REDUCTION),
        (r"copy|::to$|::_to|clone|contiguous|::cat$|stack|transpose|::t$|item|_local_scalar", _K.COPY),
        (r"zero|fill|ones|full|::empty|resize|set_|detach|view|reshape|expand|as_strided", _K.FILL),
        (r"::(add|sub|mul|div|neg|exp|log|sqrt|rsqrt|pow|relu|gelu|silu|sigmoid|tanh|clamp|abs|eq|ne|lt|gt)",
         _K.ELEMENTWISE),
    )
)  # fmt: skip


@lru_cache(maxsize=65536)
def kernel_kind(kernel: str, operator: str = "") -> OperationKind:
    """Kind of a kernel by its own name, else by that of the operator that launched it.

    A product that a convolution launched is its implicit product.
    """
    if is_communication(kernel):
        return _K.COLLECTIVE
    for pattern, kind in _KERNELS:
        if pattern.search(kernel):
            is_implicit = kind is _K.MATMUL and operator_kind(operator) is _K.CONVOLUTION
            return _K.CONVOLUTION if is_implicit else kind
    return operator_kind(operator)


@lru_cache(maxsize=65536)
def operator_kind(operator: str) -> OperationKind:
    """Kind of an operator by its name; unknown where no rule fits."""
    return next((kind for pattern, kind in _OPERATORS if pattern.search(operator)), _K.UNKNOWN)
