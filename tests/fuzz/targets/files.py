"""Files of users and of perfcast itself: devices, clusters, prices, tables, requests, calibrations."""

from __future__ import annotations

import gzip
import json
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import perfcast as pc
from fuzz.documents import as_json_lines, as_toml, document_target, tables_of
from fuzz.target import Target
from perfcast.catalogs.clusters import load_cluster, parse_cluster_file
from perfcast.catalogs.devices import load_device, parse_device_file
from perfcast.catalogs.reuse import parse_reuse_file
from perfcast.catalogs.runs import parse_run_file
from perfcast.cost.cluster_profile import (
    AxisProfile,
    ClusterProfile,
    load_cluster_profile,
    price_collective,
)
from perfcast.cost.collective_fit import Curve
from perfcast.cost.collective_fit.affine import Affine
from perfcast.cost.learned.corrections.measured import load_measured
from perfcast.cost.learned.store import load_family
from perfcast.cost.profile import load_local_profile, local_device
from perfcast.frameworks.load import parse_framework
from perfcast.measure.mesh_discovery.matrix import PairSamples, load_samples
from perfcast.measure.topology_matrix import load_topology
from perfcast.prediction.serving.request_files import read_requests
from perfcast.published.searcher_3d.files import read_cluster, read_model
from perfcast.searches.prices_file import KEY, read_prices
from perfcast.searches.sharding.inputs.tables import load_tables
from perfcast.traces.overheads.store import load_overheads
from perfcast.verbs.explain_result.answer import ExplainedResult
from perfcast.verbs.explain_result.kept import read_result
from perfcast.verbs.question import question_of
from perfcast.verbs.shared.run import read_price

ROOT = Path(__file__).resolve().parents[3]
CATALOG = ROOT / "src/perfcast/catalogs/data"


def _toml(path: str, section: str = "", most: int = 3) -> Callable[[], list[dict[str, Any]]]:
    def read() -> list[dict[str, Any]]:
        content = tomllib.loads((ROOT / path).read_text())
        return [tables_of(content, section, most) if section else content]

    return read


def _results() -> list[Any]:
    return [pc.memory("gpt2", device="a100", plan="tp=2").to_dict()]


def _explained(path: Path) -> object:
    """What a result says of itself; its question is read, and not asked."""
    kept = read_result(path)
    if kept.origin.question is not None:
        question_of(kept.origin.verb, kept.origin.question)
    found = ExplainedResult(kept, None, "not asked")
    return found.to_json(), found.document()


def _json(path: Path) -> Callable[[], list[Any]]:
    def read() -> list[Any]:
        data = path.read_bytes()
        return [json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)]

    return read


def _cluster_profiles() -> list[Any]:
    curve = Curve(Affine(1e-5, 1e9), 9, 1e3, 1e9, 1.0, 0.0, 0.0)
    axis = AxisProfile("dp", 2, {"all_reduce": curve, "all_gather": curve})
    return [ClusterProfile("box", "gloo", 2, (axis,), "by hand", "2026-01-01T00:00:00+00:00").to_json()]


def _price_collective(path: Path) -> object:
    profile = load_cluster_profile(path)
    names = [axis.name for axis in profile.axes if "all_reduce" in axis.curves]
    return price_collective(profile, "all_reduce", names[:2], [1, 10**6]) if names else None


def _device_profiles() -> list[Any]:
    line = {
        "family": "elementwise", "dtype": "fp32", "seconds_per_call": 1e-6, "flops_per_second": 1e11,
        "bytes_per_second": 1e10,
    }  # fmt: skip
    head = {
        "schema": 3, "device": "cpu", "processor": "Made Up", "num_threads": 2, "num_cores": 2,
        "memory_bytes": 2**34, "cache_bytes": 2**25, "peak_flops_per_second": {"fp32": 2e11},
        "memory_bytes_per_second": 1e11, "dram_bytes_per_second": 2e10, "launch_seconds": 2e-6,
        "host_seconds": 3e-6, "optimizer_host_seconds": 1e-6, "torch_version": "2.13.0",
        "measured_at": "2026-01-01T00:00:00+00:00", "lines": [line],
    }  # fmt: skip
    return [_as_fitted(head)]


def _as_fitted(head: Mapping[str, Any]) -> Any:
    """A profile with lines that were fitted, in the form of the day."""
    from perfcast.core.dtype import DType  # noqa: F401
    from perfcast.cost import profile

    fields = {f.name for f in profile.fields(profile.Line)}
    line = dict.fromkeys(fields, 1.0) | {k: v for k, v in head["lines"][0].items() if k in fields}
    return {**head, "schema": profile.SCHEMA, "lines": [line]}


def _local_profile(path: Path) -> object:
    return local_device(load_local_profile("cpu", path.parent))


def _overheads() -> list[Any]:
    means = [{"key": ["a", "b"], "seconds": 1e-6, "deviation_seconds": 1e-7, "count": 3}]
    from perfcast.traces.overheads.profile import Overhead
    from perfcast.traces.overheads.store import SCHEMA

    held = {one.value: {"strength": 1.0, "factor": 1.0, "means": means} for one in Overhead}
    return [{"schema": SCHEMA, "host": "this", "framework": "torch", "overheads": held}]


def _measured() -> list[Any]:
    from perfcast.core.kernel import KernelFamily
    from perfcast.cost.learned.corrections import measured

    kernel = measured.MeasuredKernel(
        "softmax 512 x 1024",
        KernelFamily.ROWS,
        {"num_rows": 512, "row_length": 1024, "read_bytes": 2**20, "written_bytes": 2**20},
        {"operation": "softmax", "dtype": "bf16", "framework": "pytorch"},
        3e-6,
    )
    whole = measured.MeasuredKernels(
        "l40s", (kernel,), "NVIDIA L40S", "torch 2.13", "2026-11-23T10:00:00+00:00"
    )
    place = _work() / "measured.json"
    measured.save_measured(whole, place)
    return [json.loads(place.read_text())]


@cache
def _work() -> Path:
    from fuzz.oracle import scratch

    folder = scratch() / "seeds"
    folder.mkdir()
    return folder


def _pairs() -> list[Any]:
    whole = PairSamples.build(4, [(0, 1), (3, 2), (1, 0)], [1e-6, 2e-6, 4e-6], [1e9, 2e9, 1e9])
    return [whole.to_json()]


def _family(path: Path) -> object:
    from perfcast.cost.learned.store import _load

    _load.cache_clear()
    return load_family(path.name.removesuffix(".json.gz"), path.parent)


_TABLES = [
    {"name": "t", "num_rows": 1000, "dim": 64, "pooling": 3.5, "dtype": "fp32", "pooling_deviation": 1.0}
]
_MOONCAKE = {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}
_MODEL = {
    "num_layers": 2, "layer_tflops": [3, 4.0], "tp_comm_sum_MB": 2048, "dp_sum_gradient_MB": 512,
    "layer_activation_MB": [16, 64],
}  # fmt: skip
_CLUSTER = {"n_node": 2, "n_gpu_per_node": 2, "gpu_gflops": 100000, "bw_gpu_to_gpu": 100, "bw_inter_node": 10}
_LOADS = ("arrival_seconds,prompt_tokens,answer_tokens,cached_tokens\n0,10,20,1\n1.5,100,200,0\n",)
_AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
_BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,log\n"
_CELLS = (",", "\n", '"', "nan", "inf", "-1", "1e999", "9" * 400, "\x00", ";", "\r\n", "1_000", "٣")


def _text_file(
    name: str, read: Callable[[Path], object], file_name: str, *seeds: str, **others: Any
) -> Target:
    return Target(
        name=f"file/{name}",
        run=read,
        seeds=lambda: [seed.encode() for seed in seeds],
        words=others.pop("words", _CELLS),
        file_name=file_name,
        **others,
    )


_DEVICE_FILE = "examples/my_gpu.toml"

TARGETS = (
    document_target(
        "file/devices", parse_device_file, _toml(_DEVICE_FILE), write=as_toml, file_name="device.toml"
    ),
    document_target(
        "file/device",
        lambda path: load_device(str(path)),
        _toml(_DEVICE_FILE),
        write=as_toml,
        file_name="d.toml",
    ),
    document_target(
        "file/clusters",
        parse_cluster_file,
        _toml("src/perfcast/catalogs/data/clusters/boxes.toml", "clusters"),
        write=as_toml,
        file_name="clusters.toml",
    ),
    document_target(
        "file/cluster",
        lambda path: load_cluster(f"{path}:8"),
        _toml("src/perfcast/catalogs/data/clusters/boxes.toml", "clusters", 1),
        write=as_toml,
        file_name="cluster.toml",
    ),
    document_target(
        "file/runs",
        parse_run_file,
        _toml("src/perfcast/catalogs/data/runs/runs.toml"),
        write=as_toml,
        file_name="runs.toml",
    ),
    document_target(
        "file/reuse",
        parse_reuse_file,
        _toml("src/perfcast/catalogs/data/reuse/dlrm.toml", "reuse"),
        write=as_toml,
        file_name="reuse.toml",
    ),
    document_target(
        "file/framework",
        parse_framework,
        _toml("src/perfcast/frameworks/data/megatron.toml"),
        write=as_toml,
        file_name="framework.toml",
    ),
    document_target("file/result", _explained, _results, file_name="result.json"),
    document_target(
        "file/prices-json",
        read_prices,
        lambda: [{KEY: {"h100-sxm": 2.5, "dgx-h100:8": 3}}],
        file_name="p.json",
    ),
    document_target(
        "file/prices-toml", read_prices, lambda: [{KEY: {"h100-sxm": 2.5}}], write=as_toml, file_name="p.toml"
    ),
    _text_file("prices-csv", read_prices, "p.csv", f"name,{KEY}\nh100-sxm,2.5\ndgx-h100:8,3\n"),
    document_target(
        "file/price",
        lambda path: read_price(str(path), "h100-sxm"),
        lambda: [{"prices": {"h100-sxm": {"dollars": 2.5, "source": "our contract"}}}],
        write=as_toml,
        file_name="price.toml",
    ),
    document_target(
        "file/tables-json", load_tables, lambda: [_TABLES, {"tables": _TABLES}], file_name="t.json"
    ),
    document_target(
        "file/tables-toml", load_tables, lambda: [{"tables": _TABLES}], write=as_toml, file_name="t.toml"
    ),
    _text_file("tables-csv", load_tables, "t.csv", (ROOT / "examples/tables.csv").read_text()),
    document_target(
        "file/requests-lines",
        read_requests,
        lambda: [[_MOONCAKE, _MOONCAKE]],
        write=as_json_lines,
        file_name="r.jsonl",
    ),
    _text_file("requests-csv", read_requests, "r.csv", *_LOADS, _AZURE, _BURST),
    document_target("file/cluster-profile", _price_collective, _cluster_profiles, file_name="profile.json"),
    document_target("file/device-profile", _local_profile, _device_profiles, file_name="profile_cpu.json"),
    document_target("file/overheads", load_overheads, _overheads, file_name="overheads.json"),
    document_target("file/measured-kernels", load_measured, _measured, file_name="measured.json"),
    document_target("file/pairs", load_samples, _pairs, file_name="pairs.json"),
    document_target("file/searcher-cluster", read_cluster, lambda: [_CLUSTER], file_name="cluster.json"),
    document_target("file/searcher-model", read_model, lambda: [_MODEL], file_name="model.json"),
    _text_file("topology", load_topology, "topology.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"),
)
