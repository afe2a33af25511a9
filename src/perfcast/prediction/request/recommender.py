"""What is asked of a recommendation model whose tables are spread over devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from perfcast.core.words import known_word

if TYPE_CHECKING:
    from perfcast.core.embedding.lookup import TablePlacement
    from perfcast.core.embedding.model import Recommender
    from perfcast.core.machine.cluster import Cluster
    from perfcast.cost.model import CostModel

#: Of the dense part; bf16 and fp16 are mixed precision. Tables have their own.
DenseDType = Literal["fp32", "tf32", "bf16", "fp16"]
DENSE_DTYPES: tuple[DenseDType, ...] = get_args(DenseDType)


@dataclass(frozen=True, kw_only=True)
class RecommenderRequest:
    """One training step of a recommendation model on a cluster.

    Attributes:
        model: Catalog name of a DLRM, or the model itself.
        cluster: Catalog name with ``:N`` for its devices, a file of your own, or the cluster itself.
        global_batch_size: Samples of a step, over all devices.
        placements: Of every table; None takes ``plain_sharding``.
        dtype: Of the dense part.
        optimizer: Of the tables, fused with their backward; the dense part takes plain SGD.
        pipelined_input: Whether the next batch's indices travel while this one is computed.
        graphed: Whether kernels are replayed without the host (CUDA graphs).
        compiled: Whether element-wise kernels of the dense part are fused.
        cost_model: Of the dense part.
        embedding_cost: 'heuristic' or 'learned'; None: what suits the device.
        notes: What was chosen before, for the assumptions.
    """

    model: str | Recommender
    cluster: str | Cluster
    global_batch_size: int
    placements: tuple[TablePlacement, ...] | None = None
    dtype: DenseDType = "fp32"
    optimizer: str = "rowwise_adagrad"
    pipelined_input: bool = True
    graphed: bool = False
    compiled: bool = False
    cost_model: str | CostModel | None = None
    embedding_cost: str | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known_word("dtype", self.dtype, DENSE_DTYPES)
