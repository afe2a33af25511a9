"""Files of users are opened, unpacked and parsed in ``perfcast.files`` alone, where all of it is bounded."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import perfcast

ROOT = Path(perfcast.__file__).parent

#: Methods of paths and streams that read.
METHODS = {"read_text", "read_bytes", "open"}
#: Functions that open, unpack or parse.
FUNCTIONS = {
    *("open", "io.open", "os.open", "os.fdopen", "os.read"),
    *("json.load", "json.loads", "tomllib.load", "tomllib.loads", "csv.reader", "csv.DictReader"),
    *("gzip.open", "gzip.decompress", "gzip.GzipFile", "bz2.open", "bz2.decompress", "zlib.decompress"),
    *("lzma.open", "lzma.decompress", "zlib.decompressobj", "zipfile.ZipFile", "tarfile.open"),
    *("np.load", "np.fromfile", "np.loadtxt", "np.genfromtxt", "np.memmap", "torch.load", "mmap.mmap"),
    *("pickle.load", "pickle.loads", "marshal.loads", "runpy.run_path"),
    *("spec_from_file_location", "importlib.util.spec_from_file_location"),
}
FRAMES = ("read_csv", "read_parquet", "read_json", "read_ndjson", "scan_csv", "scan_parquet", "read_excel")

#: Modules that open or parse something else than a file of a user's, and what.
PACKAGED = "what is installed with the package"
OWN = "what a process of ours wrote into a folder of its own"
SYSTEM = "what the system says of itself"
TEXT = "a text that is no file"
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        """
        cost.collective.constants cost.host.costs cost.host.processors cost.host_link
        cost.learned.families.convolution_narrow cost.learned.streams cost.processor.model cost.spread
        evidence.train.host.fit evidence.train.learned.train evidence.validate.collectives.constants
        evidence.validate.profile_files evidence.validate.serving.recipes
        evidence.validate.step_constants.write evidence.validate.vision.examples.setups
        evidence.validate.vision.kept memory_use.allocator.context
        memory_use.footprint.spread replays.generate.generate report.documents.accuracy
        searches.handover.serving.job searches.handover.torchtitan_model searches.sweep.cells
        torch_internals.dynamo torch_internals.vision traces.forecast.eager_kernels
        workload.kept.surroundings
        """.split(),
        PACKAGED,
    ),
    **dict.fromkeys(
        """
        measure.mesh_discovery.worker replays.judge.profiling replays.play.apart replays.ranks.ranks
        replays.ranks.worker server.uploads traces.record.recorder workload.kept.store
        """.split(),
        OWN,
    ),
    **dict.fromkeys(
        """
        measure.machine measure.collectives.worker replays.judge.utilisation replays.play.memory_bound
        replays.play.prepare printer.streams server.processes.child
        """.split(),
        SYSTEM,
    ),
    **dict.fromkeys(
        """
        cost.embedding.learned evidence.validate.traces.program server.processes.message verbs.showing
        verbs.explain_result.answer
        traces.kineto.columns
        """.split(),
        TEXT,
    ),
    "cost.learned.store": "weights, unpacked by the one reader, parsed without what takes time",
    "traces.files.json_stream": "traces, unpacked by the one reader, parsed piece by piece",
    "workload.kept.encoding": "kept captures, unpacked and parsed within bounds of their own",
    "replays.play.modules": "a program of the user's, run after the one reader has looked at it",
    "workload.models.user_file": "a program of the user's, run after the one reader has looked at it",
    "searches.handover.fsdp2_program": "a program that stands alone",
    "replays.generate.standalone.benchmark": "a program that stands alone",
}


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def reads_of(path: Path) -> tuple[str, ...]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return tuple(f"line {node.lineno}: {name}" for node, name in _calls(tree) if _reads(node, name))


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def _reads(node: ast.Call, name: str) -> bool:
    last = name.rpartition(".")[2]
    if "resources.files(" in name or "__file__" in name:  # what is installed with the package
        return False
    if last == "open" and name not in FUNCTIONS:
        modes = [one.value for one in (*node.args, *(k.value for k in node.keywords)) if _is_mode(one)]
        is_path = bool(modes) or "encoding" in [k.arg for k in node.keywords]
        return is_path and not any(set(mode) & set("wax") for mode in modes)
    return (
        name in FUNCTIONS
        or ("." in name and last in METHODS)
        or (last in FRAMES and name.partition(".")[0] in ("pl", "polars"))
    )


def _is_mode(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and set(node.value) <= set("rwaxbt+")
    )


FILES = [path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "files"]


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_file_of_a_user_is_read_by_the_one_reader(path: Path) -> None:
    found = reads_of(path)
    assert not found or module_of(path) in ELSEWHERE, (
        f"{module_of(path)} reads on its own: {', '.join(found)}; take perfcast.files, or say what it reads"
    )


def test_what_is_said_to_read_elsewhere_does() -> None:
    reading = {module_of(path) for path in FILES if reads_of(path)}
    assert not ELSEWHERE.keys() - reading
