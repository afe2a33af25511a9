"""Steps of public recordings forecast from parts of them, and critical paths beside HolisticTraceAnalysis's.

Run by hand: ``python benchmarks/traces.py --data DIR [--reference PYTHON]``. DIR holds ``param/`` with
``dlrm_kineto.tar.gz`` (facebookresearch/param: eight ranks of a DLRM, one step), ``hta/`` (traces of
HolisticTraceAnalysis's tests) and ``tracelens/`` (of AMD TraceLens); what is missing is left out. PYTHON is
an interpreter that has ``traceinsight==0.6.1``; without it no paths are compared. Some 10 seconds.

Errors are of the predicted against the recorded step, negative when too short:

* own gaps: every rank is played with the host times that it recorded. Shows what the timeline itself adds.
* fitted on ranks 0-3: host overheads of ranks 0-3, kernels and structure as recorded; only ranks 4-7 are
  scored. The strength that draws rare gaps to common ones is chosen by leaving out within ranks 0-3.
* published recipe: the same with the trimmed means of Lin et al. (2024).
* steps left out: overheads fitted on the other marked steps, and the other steps' kernels, played in steady
  state; the step that is left out gives nothing but its measured time. What the first recorded step pays
  for the profiler's start is left out of what is fitted; where that step is the one left out, nothing
  forecasts it, and the error without it stands behind.
* critical paths: of the whole recording; nodes in order, each the start or end of an event of the file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np

from perfcast.published.multi_gpu_2024.iteration import geometric_mean_error
from perfcast.traces.critical_path.path import build_path_graph, longest_path
from perfcast.traces.kineto.reader import read_kineto, read_ranks
from perfcast.traces.link.kernels import link_kernels
from perfcast.traces.overheads.profile import apply_overheads, fit_overheads
from perfcast.traces.overheads.trimmed import fit_trimmed_overheads
from perfcast.traces.timeline.play import play_ranks
from perfcast.traces.timeline.program import RankProgram
from perfcast.traces.timeline.ranks import build_ranks
from perfcast.traces.timeline.repeat import play_steadily
from perfcast.traces.timeline.startup import without_startup

RANKS = "param/dlrm_kineto.tar.gz"
OF_SEVERAL_STEPS = ("hta/nccl_2rank_a100.json.gz", "tracelens/mi300_resnet_act_checkpoint.json.gz")
WITH_SYNCHRONISATION = tuple(
    f"hta/{name}.json.gz"
    for name in ("alexnet_a100_cuda_sync", "event_sync", "event_sync_multi_stream", "simple_add_a100")
)
NUM_FITTED = 4
#: Run by the other interpreter: prints the path's nodes as [place in the file, whether at its start].
REFERENCE = """
import json, logging, os, shutil, sys, tempfile, time
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(sys.argv[1], folder)
    name = os.path.join(folder, os.path.basename(sys.argv[1]))
    traces = TraceAnalysis(trace_files={0: name}, trace_dir=folder)
    began = time.process_time()
    graph, _ = traces.critical_path_analysis(rank=0, annotation="", instance_id=None)
    seconds = time.process_time() - began
nodes = [graph.node_list[number] for number in graph.critical_path_nodes]
path = [[int(node.ev_idx), bool(node.is_start)] for node in nodes]
print("\\n" + json.dumps({"path": path, "seconds": seconds}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--reference", metavar="PYTHON")
    chosen = parser.parse_args()
    if (chosen.data / RANKS).exists():
        compare_ranks(chosen.data / RANKS)
    for name in OF_SEVERAL_STEPS:
        if (chosen.data / name).exists():
            leave_steps_out(chosen.data / name)
    differing = 0
    for name in WITH_SYNCHRONISATION if chosen.reference else ():
        if (chosen.data / name).exists():
            differing += not compare_paths(chosen.data / name, chosen.reference)
    return int(differing > 0)


def compare_ranks(path: Path) -> None:
    """Errors of all ranks with their own gaps, and of the last ones with overheads of the first."""
    programs = build_ranks(read_ranks([path]))
    print(path.name)
    show("own gaps", programs, programs, 0)
    fitted = fit_overheads(programs[:NUM_FITTED])
    show(
        f"fitted on ranks 0-{NUM_FITTED - 1}",
        [apply_overheads(fitted, program) for program in programs],
        programs,
        NUM_FITTED,
    )
    trimmed = fit_trimmed_overheads(programs[:NUM_FITTED])
    show(
        "published recipe", [apply_overheads(trimmed, program) for program in programs], programs, NUM_FITTED
    )


def show(name: str, played: Sequence[RankProgram], recorded: Sequence[RankProgram], first: int) -> None:
    """Errors of the ranks from ``first`` on."""
    ranks = play_ranks(played).ranks[first:]
    errors = [
        played / measured - 1
        for rank, program in zip(ranks, recorded[first:], strict=True)
        for played, measured in zip(rank.step_seconds, program.measured_seconds, strict=True)
    ]
    average = mean(abs(error) for error in errors)
    geometric = geometric_mean_error([1 + error for error in errors], [1.0] * len(errors))
    texts = " ".join(f"{error:+.2%}" for error in errors)
    print(f"  {name:22} MAPE {average:.3%}, GMAE {geometric:.2%}; ranks {first}-{len(recorded) - 1}: {texts}")


def leave_steps_out(path: Path) -> None:
    """Errors of each step, forecast from the others; of the first also without the profiler's start."""
    traces = read_ranks([path])
    steps = {step.number: build_ranks(traces, [step.number]) for step in traces[0].steps}
    errors, started = [], 0.0
    for left, programs in steps.items():
        others = [step for number, step in steps.items() if number != left]
        plain = [
            [
                without_startup(trace, program, [other[rank] for other in others if other is not step])
                for rank, (trace, program) in enumerate(zip(traces, step, strict=True))
            ]
            for step in others
        ]
        fitted = fit_overheads([program for step in plain for program in step])
        forecast = mean(
            play_steadily([apply_overheads(fitted, program) for program in step])[0] for step in plain
        )
        measured = programs[0].measured_seconds[0]
        errors.append(forecast / measured - 1)
        own = without_startup(traces[0], programs[0], [other[0] for other in others])
        start = sum(p.seconds for p in programs[0].pieces) - sum(p.seconds for p in own.pieces)
        started += forecast / (measured - start) - 1 if start else 0.0
    texts = " ".join(f"{error:+.2%}" for error in errors)
    print(
        f"{path.name}\n  {'steps left out':22} {texts}; the first without the profiler's start {started:+.2%}"
    )


def compare_paths(path: Path, python: str) -> bool:
    """Whether the critical path is the reference's, node by node."""
    trace = read_kineto(path)
    began = time.process_time()
    graph = build_path_graph(trace, link_kernels(trace.events), -1.0, trace.end_seconds)
    edges = longest_path(graph)
    seconds = time.process_time() - began
    with gzip.open(path) as file:
        complete = [place for place, e in enumerate(json.load(file)["traceEvents"]) if e.get("ph") == "X"]
    places = np.array(complete)[trace.events.orders]
    nodes = [edge.begin for edge in edges] + [edges[-1].end]
    ours = [[int(places[graph.rows[node]]), graph.is_start[node]] for node in nodes]
    found = subprocess.run(
        [python, "-c", REFERENCE, str(path)], capture_output=True, text=True, check=True
    ).stdout
    reference = json.loads(found.splitlines()[-1])
    is_equal = bool(ours == reference["path"])
    print(
        f"{path.name}: critical path {'equal' if is_equal else 'DIFFERS'}, {len(ours)} nodes; "
        f"{seconds:.3f} s, reference {reference['seconds']:.2f} s"
    )
    return is_equal


if __name__ == "__main__":
    raise SystemExit(main())
