"""Small grammars: what options say in a few characters."""

from __future__ import annotations

from collections.abc import Callable

from fuzz.target import text_target
from perfcast.catalogs.clusters import load_cluster
from perfcast.core.convolution import parse_convolution
from perfcast.core.plans.text import format_values, parse_plan
from perfcast.core.serving.lengths import parse_lengths
from perfcast.core.tuning.text import format_tuning, parse_adapters, parse_frozen, read_tuning
from perfcast.files.limits import parse_size
from perfcast.frameworks.serving import parse_version
from perfcast.measure.collectives.nccl_tests import parse_nccl_log
from perfcast.measure.collectives.plan import parse_mesh as parse_axes
from perfcast.measure.topology_matrix import parse_topology
from perfcast.memory_use.allocator.settings import parse_allocator_settings
from perfcast.published.neusight.tiles import parse_product_tile
from perfcast.replays.program.schema_text import parse_schema
from perfcast.report.pictures import parse_picture
from perfcast.searches.sharding.on_cluster import parse_kinds
from perfcast.searches.space.fixed import read_fixed
from perfcast.simulate.network.fabrics.names import parse_fabric
from perfcast.simulate.stragglers import parse_slowdowns
from perfcast.traces.chakra.collectives import parse_groups
from perfcast.traces.forecast.what_if import parse_what_if
from perfcast.verbs.mesh_cost.request import parse_mesh, parse_sizes
from perfcast.verbs.scale.limits import parse_assumptions
from perfcast.verbs.shared.recordings import parse_steps
from perfcast.verbs.shared.run import read_price
from perfcast.verbs.shared.serving import read_speculation
from perfcast.verbs.shared.values import parse_counts, parse_time, read_amount, split_names


def _refusing(parse: Callable[[str], object], *refusals: type[Exception]) -> Callable[[str], object]:
    """A grammar that only perfcast itself writes: it refuses others by exceptions of Python."""

    def parsed(text: str) -> object:
        try:
            return parse(text)
        except refusals:
            return None

    return parsed


_CONVOLUTION = "n8 c64-128/1 i1x56x56 f1x3x3 s1x1x1 p0x1x1 d1x1x1 forward contiguous bias"
_LOG = """# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20
# nccl-tests version 2.13.8 all_reduce_perf
# Using devices
#  Rank  0 Group  0 Pid  1 on  a device  0 [0x00] NVIDIA H100
#  Rank  1 Group  0 Pid  2 on  a device  1 [0x01] NVIDIA H100
#
#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong
#   (B)  (elements)                (us)  (GB/s)  (GB/s)       (us)  (GB/s)  (GB/s)
      8   2  float  sum  -1  12.3  0.00  0.00  0  12.1  0.00  0.00  0
     16   4  float  sum  -1  12.5  0.00  0.00  0  12.2  0.00  0.00  0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.0
"""
_TOPOLOGY = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\t X \tNV18\tPIX\t0-55\nGPU1\tNV18\t X \tSYS\t0-55\n"
_NETWORKS = [
    "star",
    "fat-tree:radix=64,oversubscription=2/1,hop_us=0.5",
    "rail-optimised:radix=32,spines=1,relays=1",
    "dragonfly:devices=4,routers=8,global=2,local_us=1,global_us=2",
    "torus:shape=4x4x8",
]

TARGETS = (
    text_target(
        "text/plan",
        parse_plan,
        [
            "tp=8,pp=4,zero=1",
            "dp=2,tp=2,pp=2,cp=1,ep=1,vp=2,sp=1,recompute=full,schedule=1f1b",
            "zero=3,stages=8/9,overlap=tensor+gradients,bucket=25MB,offload=optimizer",
        ],
        show=format_values,
    ),
    text_target(
        "text/network", parse_fabric, _NETWORKS, words=["radix", "=", "hop_us", ",", "shape", "x", "1e9"]
    ),
    text_target("text/cluster", load_cluster, ["dgx-h100:64", "gb200-nvl72/36:72", "dgx-a100"]),
    text_target("text/mesh", lambda text: parse_mesh("dgx-h100", text), ["dp=2,tp=4", "dp=8"]),
    text_target("text/axes", parse_axes, ["dp=2,tp=4", "a=1"]),
    text_target("text/sizes", parse_sizes, ["1KB..1GB", "64KiB", "4096", "0.5MB..1GiB"]),
    text_target("text/size", lambda text: parse_size("--max-bytes", text), ["500MiB", "8G", "1.5 TiB"]),
    text_target("text/steps", lambda text: parse_steps("--steps", text), ["3:5", "7"]),
    text_target("text/counts", lambda text: parse_counts("--devices", text), ["8,64", "256", "1, 2"]),
    text_target(
        "text/time", lambda text: parse_time("--deadline", text), ["30d", "12h", "500ms", "3µs", "1e-3"]
    ),
    text_target("text/amount", lambda text: read_amount("--tokens", text), ["15T", "300B", "1e12"]),
    text_target("text/names", lambda text: split_names("--clusters", [text]), ["a:8,b:8", "c"]),
    text_target("text/price", lambda text: read_price(text, "h100-sxm"), ["2.5", "1e3", "nan"]),
    text_target("text/lengths", parse_lengths, ["8192", "uniform:1024:0.2", "lognormal:1024:0.5"]),
    text_target("text/speculation", lambda text: read_speculation("--speculative", text), ["3:0.7"]),
    text_target("text/slowdowns", parse_slowdowns, ["lognormal:0.02", "lognormal:0.1+share:0.01:1.3"]),
    text_target(
        "text/allocator",
        parse_allocator_settings,
        [
            "max_split_size_mb:128,backend:native",
            "expandable_segments:True,roundup_power2_divisions:[256:1,>:4]",
        ],
    ),
    text_target(
        "text/adapters", lambda text: parse_adapters(text, "--lora"), ["rank=16,targets=q+v,dropout=0.1"]
    ),
    text_target("text/frozen", parse_frozen, ["embedding,layers:0-15"]),
    text_target(
        "text/tuning",
        read_tuning,
        ["--freeze embedding,layers:0-3", "--lora rank=8,targets=q+v"],
        show=format_tuning,
    ),
    text_target("text/fix", read_fixed, ["tp=8,zero=1,stages=balanced"]),
    text_target("text/kinds", parse_kinds, ["row_wise,column_wise"]),
    text_target(
        "text/what-if", lambda text: parse_what_if([text]), ["speed:aten::addmm=2", "overlap", "host=0.5"]
    ),
    text_target("text/assumptions", lambda text: parse_assumptions((text,)), ["batch_exponent=0.33"]),
    text_target("text/picture", parse_picture, ["out.svg", "out.png:roofline"]),
    text_target("text/version", parse_version, ["0.5.8.post1", "v1.2.0rc6"]),
    text_target(
        "text/schema",
        parse_schema,
        ["aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"],
    ),
    text_target(
        "text/groups", parse_groups, ['{"[{\\"pg_name\\": \\"0\\", \\"ranks\\": [0, 1]}]"}'.replace("\\", "")]
    ),
    text_target(
        "text/tile", parse_product_tile, ["sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cublas"]
    ),
    text_target(
        "text/convolution",
        _refusing(parse_convolution, ValueError),
        [_CONVOLUTION],
        words=["9" * 5000, "x", "1"],
    ),
    text_target(
        "text/nccl-log", parse_nccl_log, [_LOG], words=["# ", " 0 ", "\n", "nan", "1e999", "9" * 5000]
    ),
    text_target(
        "text/topology",
        parse_topology,
        [_TOPOLOGY],
        words=["GPU0", "NV18", "\t", "\n", " X ", "NV" + "9" * 5000],
    ),
)
