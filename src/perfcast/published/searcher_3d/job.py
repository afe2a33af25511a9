"""A job as the 3D-parallelism searcher describes it: its figures, from a transformer and a cluster.

The study's own files state these numbers; here each is what its name says of the job: forward work, tensor
sums and outputs of layers for the global batch at two bytes a number, gradients of all parameters at two.
"""

from __future__ import annotations

from perfcast.core.dtype import DTYPES_BY_LABEL
from perfcast.core.machine.cluster import Cluster
from perfcast.core.machine.hardware import Device
from perfcast.core.model.transformer import Transformer
from perfcast.core.model.weights import count_parameters
from perfcast.published.comparison import print_part
from perfcast.published.searcher_3d.files import SearcherCluster, SearcherModel
from perfcast.units import GIGA, MEGA, TERA
from perfcast.workload.blocks.step.flops import flops_per_sequence

#: Bytes of a number that is exchanged.
_HALF = 2
#: Sums over a tensor-parallel group in forward and backward of a layer (Shoeybi et al., arXiv:1909.08053).
_SUMS_OF_LAYER = 4
#: Of a training step's work; the backward is twice as much.
_FORWARD_SHARE = 1 / 3


def describe_cluster(cluster: Cluster, device: Device, dtype: str) -> SearcherCluster:
    """Its innermost level is the node, its outermost link the one between nodes."""
    peak = device.peak_flops_per_second(DTYPES_BY_LABEL[dtype], matrix_units=True)
    node = cluster.levels[0]
    return SearcherCluster(
        num_nodes=cluster.num_devices // node.size, devices_per_node=node.size,
        gpu_gigaflops_per_second=peak / GIGA,
        node_link_gigabytes_per_second=node.link.bytes_per_second / GIGA,
        network_gigabytes_per_second=cluster.levels[-1].link.bytes_per_second / GIGA,
    )  # fmt: skip


def describe_model(model: Transformer, global_batch_size: int, sequence_length: int) -> SearcherModel:
    """All layers' work as one, since the searcher reads its sum alone."""
    activation = global_batch_size * sequence_length * model.hidden_size * _HALF / MEGA
    work = global_batch_size * flops_per_sequence(model, sequence_length) * _FORWARD_SHARE / TERA
    return SearcherModel(
        num_layers=model.num_layers, layer_teraflops=(work,),
        tensor_traffic_megabytes=_SUMS_OF_LAYER * model.num_layers * activation,
        gradient_megabytes=count_parameters(model) * _HALF / MEGA, layer_activation_megabytes=(activation,),
    )  # fmt: skip


if __name__ == "__main__":
    print_part("searcher_3d.job", "searcher_3d")
