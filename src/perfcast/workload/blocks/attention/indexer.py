"""The indexer of sparse attention: which tokens a query attends to (DeepSeek-V3.2, arXiv 2512.02556, 2.1).

Queries of a few narrow heads come out of the compressed queries, one key and a weight for each head out of
the input, by one product that is not quantised; a score of a token is the weighted sum over heads of what
their products leave above zero, in fp8, and the tokens with the highest scores are attended to. Each
tensor-parallel rank does all of it (vLLM: models/deepseek_v2.py, Indexer: wq_b is replicated, wk_weights_proj
not cut; fp8_mqa_logits and fp8_paged_mqa_logits of DeepGEMM; top_k_per_row).
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.dtype import DType
from perfcast.core.model.cache import index_bytes
from perfcast.core.model.transformer import SparseAttention
from perfcast.core.operation import OperationKind
from perfcast.workload.blocks.kernels import elementwise, norm, rows_kernel, tensor
from perfcast.workload.blocks.serving.kernels import cached_attention, rotation
from perfcast.workload.blocks.serving.parts import linear, linear_outside
from perfcast.workload.blocks.serving.setting import Serving
from perfcast.workload.blocks.tape import Tape


def pick_tokens(tape: Tape, setting: Serving, sparse: SparseAttention, query_depth: int) -> None:
    """Queries, key and weights of new tokens; scores of all tokens before them; the largest.

    Args:
        query_depth: Elements of the vector that queries are made of.
    """
    tokens, element, hidden = setting.tokens, setting.precision.element, setting.model.hidden_size
    width = sparse.num_heads * sparse.head_size
    linear(tape, setting, tokens, width, query_depth, "attention.index_queries")
    linear_outside(tape, setting, tokens, sparse.head_size + sparse.num_heads, hidden, "attention.index_key")
    tape.run(
        norm("native_layer_norm", tokens, sparse.head_size, element, has_bias=True), "attention.index_key"
    )
    tape.run(rotation(tokens, width + sparse.head_size, element), "attention.index_rope")
    queries = tensor(element, tokens, width)
    tape.run(
        elementwise("quantise", (queries,), (tensor(DType.FP8, tokens, width),)), "attention.index_queries"
    )
    key = tensor(element, tokens, sparse.head_size)
    tape.run(
        rows_kernel(
            OperationKind.COPY, "reshape_and_cache", (key,),
            (tensor(DType.UINT8, tokens, index_bytes(setting.model)),), flops_per_element=0,
        ),
        "attention.index_cache",
    )  # fmt: skip
    _score(tape, setting, sparse)


def _score(tape: Tape, setting: Serving, sparse: SparseAttention) -> None:
    """Scores of all tokens, and the largest of each query.

    The scores stand as attention of heads of half the size, keys and values: as many multiply-adds, as many
    bytes of the cache, and a function of every product.
    """
    precision = replace(setting.precision, cache_format="fp8", attends_in_cache_format=True)
    half = sparse.head_size // 2
    tape.run(
        cached_attention(
            setting.batch_size,
            sparse.num_heads,
            1,
            setting.num_queries,
            setting.num_keys,
            half,
            precision,
            is_stand_in=True,
        ),
        "attention.index",
    )
    if setting.num_keys > sparse.kept_tokens:
        scores = tensor(DType.FP32, setting.tokens, setting.num_keys)
        picked = tensor(DType.INT32, setting.tokens, sparse.kept_tokens)
        tape.run(rows_kernel(OperationKind.SORT, "topk", (scores,), (picked,)), "attention.index")
