"""What kind of work a kernel or operator is, by its name."""

from __future__ import annotations

import re
from functools import lru_cache

from perfcast.core.operation import OperationKind
from perfcast.traces.collectives.kernels import is_communication
from perfcast.workload.rules.elementwise import ELEMENTWISE

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

#: Names of operators, for kernels that no rule above knows and for processors; first match.
_OPERATORS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"^fsdp::|^aten::_chunk_cat", _K.COPY),  # into and out of FSDP2's buffers
        (r"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|broadcast_|c10d|gloo:|nccl:", _K.COLLECTIVE),
        (r"attention|flash", _K.ATTENTION),
        (r"conv(?!ert)|im2col|col2im", _K.CONVOLUTION),
        (r"::_?(bmm|baddbmm)", _K.BATCHED_MATMUL),
        (r"::_?(scaled_)?grouped_mm", _K.GROUPED_MATMUL),
        (
            r"::_?(addmm|mm|matmul|linear|mv|addmv|dot|vdot|einsum|scaled_mm|int_mm|addbmm|addr|ger|outer|inner"
            r"|cdist|euclidean_dist|tensordot|bilinear|trilinear|cholesky|triangular_solve|linalg_(?!\w*norm)"
            r"|inverse|svd|qr\b|lu_)|(Addmm|Mm|Linear)Backward",
            _K.MATMUL,
        ),
        (r"embedding", _K.EMBEDDING),
        (r"::(linalg_\w*norm|_foreach_norm|norm(_backward)?$)", _K.REDUCTION),
        (r"norm(?!al)", _K.NORMALIZATION),
        (r"softmax", _K.SOFTMAX),
        (r"loss|entropy|kl_div", _K.LOSS),
        (r"lstm|gru|rnn", _K.RECURRENT),
        (r"_foreach|_fused_adam|_fused_sgd|addcdiv|addcmul|Optimizer", _K.OPTIMIZER),
        (r"pool|roi_align", _K.POOLING),
        (r"sort|topk|unique|kthvalue|median", _K.SORT),
        (
            r"index|gather|scatter|select|slice|narrow|masked|where|take|nonzero|searchsorted|bucketize|bincount"
            r"|histc|one_hot|grid_sample|::nms|indices",
            _K.INDEXING,
        ),
        (r"dropout|rand|bernoulli|normal|uniform|exponential_|multinomial", _K.RANDOM),
        (
            r"::(sum|mean|max(?!imum)|min(?!imum)|amax|amin|aminmax|all|any|std|var|prod|cumsum|cumprod|cummax"
            r"|argm|logsumexp|logcumsumexp|count_nonzero|trace|equal)",
            _K.REDUCTION,
        ),
        (
            r"copy|::to$|::_to|clone|contiguous|::cat$|::cat_|stack|transpose|::t$|::t_|item|_local_scalar|pad"
            r"|flip|roll|repeat|tile|pixel_|shuffle|pin_memory|lift|upsample|interpolate|::unfold",
            _K.COPY,
        ),
        (
            r"zero|fill|ones|full|::(new_)?empty|resolve_(conj|neg)|resize|set_|detach|view|reshape|expand|as_strided|arange|linspace|eye\b"
            r"|permute|squeeze|unbind|split|chunk|flatten|movedim|diagonal|alias|real\b|imag\b|::size|result_type",
            _K.FILL,
        ),
        (r"fft|AccumulateGrad|cast|quantize|complex|sigmoid|reducer::mul", _K.ELEMENTWISE),
    )
)  # fmt: skip
#: What autograd's engine runs, and the node's name.
_NODE = re.compile(r"^(?:autograd::engine::evaluate_function: )?(?:torch::autograd::)?(\w+?)Backward\w*$")
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


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
    """Kind of an operator by its name; unknown where no rule fits.

    A node of autograd (``MulBackward0``) is of the kind of its operator (``aten::mul``).
    """
    node = _NODE.match(operator)
    name = f"aten::{_WORD_STARTS.sub('_', node[1]).lower()}_backward" if node else operator
    found = next((kind for pattern, kind in _OPERATORS if pattern.search(name)), None)
    if found is None and _plain(name) in ELEMENTWISE:
        found = _K.ELEMENTWISE
    return found or _K.UNKNOWN


def _plain(operator: str) -> str:
    """The name of the rule that an operator has: without namespace, in-place mark and pass."""
    name = operator.rpartition("::")[2]
    return name if name in ELEMENTWISE else name.removesuffix("_").removesuffix("_backward")
