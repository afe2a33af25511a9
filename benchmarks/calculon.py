"""Plans a second on one core, and errors of step times, beside Calculon: one run, one machine.

``python benchmarks/calculon.py --calculon DIR``, where DIR (or the variable CALCULON) is a checkout of
github.com/calculon-ai/calculon (the ``calculon`` of PyPI is another program); without it our side alone is
printed, beside a rate and errors of Calculon that were measured before. Rates are of processor seconds, so
that other work on the machine does not count.

* Calculon: executions of its own search's space, drawn at random, each compiled, run and asked for its
  statistics as its search does, with its log switched off. Those that it refuses for their network before it
  computes anything count neither as plans nor as time; those that do not fit the memory count as plans.
* perfcast: all plans of its space, with step time, causes and peak memory, in one call, with the listing of
  plans and the prices of all operations. Plans that do not fit the memory take time but do not count.

Errors are of the eight step times of Korthikanti et al. (arXiv 2205.05198, table 5), Calculon's own
validation cases (calculon/llm/validation.py: seqsel_tab5), on A100 of 80 GB. The paper's program is
Megatron-LM v3 in 16 bits; whether it summed gradients in fp32, inside the products (as with bf16), or in fp16
beside them, it does not say: both are printed, and today's Megatron-LM. The first is what is judged.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from goals import Row, report

from perfcast.catalogs.clusters import load_cluster
from perfcast.catalogs.models import load_model
from perfcast.core.garbage import garbage_collection_paused
from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.prediction.names import resolve_cost_model, resolve_device
from perfcast.prediction.step.predict import predict_plan
from perfcast.searches.evaluation.evaluate import evaluate_plans
from perfcast.searches.space.definition import Space
from perfcast.searches.space.fitting import enumerate_fitting
from perfcast.workload.models.transformer import read_transformer

LEAST_RATIO = 100.0
#: Calculon's name of a model → the catalog's; device counts and the batch of the search.
MODELS = {"gpt3-175B": "megatron-175b", "megatron-1T": "megatron-1t"}
DEVICE_COUNTS = (512, 1024, 4096)
BATCH, SEQUENCE_LENGTH, SYSTEM = 3072, 2048, "a100_80g"
#: Programs whose habits the eight cases are forecast by, with their formats.
PROGRAMS = {
    "v3, fp16": ("megatron_local", "fp16"),
    "v3, bf16": ("megatron_local", "bf16"),
    "core, fp16": ("megatron", "fp16"),
}
#: Of Calculon, as this file measured them with its sources: plans a second on one core (the mean of six runs
#: on two cores of an x86 server, Python 3.11, where ours evaluated 51 to 108 thousand); mean and worst
#: error of its validation cases. On a machine of another speed only a run of both tells their ratio.
KNOWN_RATE, KNOWN_ERRORS = 766.0, (0.0365, 0.0887)


@dataclass(frozen=True)
class Case:
    """Two lines of table 5: full recomputation, and selective with sequence parallelism."""

    theirs: str
    ours: str
    stages: int
    chunks: int
    micro_batch: int
    batch: int
    full_seconds: float
    selective_seconds: float


CASES = (
    Case("megatron-22B", "megatron-22b", 1, 1, 4, 4, 1.42, 1.10),
    Case("gpt3-175B", "megatron-175b", 8, 3, 1, 64, 18.13, 13.75),
    Case("turing-530B", "megatron-530b", 35, 3, 1, 280, 49.05, 37.83),
    Case("megatron-1T", "megatron-1t", 64, 1, 1, 512, 94.42, 71.49),
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--calculon",
        type=Path,
        default=os.environ.get("CALCULON") or None,
        metavar="DIR",
        help="a checkout of Calculon",
    )
    parser.add_argument("--devices", type=int, nargs="+", default=DEVICE_COUNTS)
    parser.add_argument("--seconds", type=float, default=10.0, help="of Calculon, for each model and count")
    options = parser.parse_args()
    processor = platform.processor() or platform.machine()
    print(f"{processor}, {os.cpu_count()} cores, Python {platform.python_version()}")
    calculon = None if options.calculon is None else Calculon(options.calculon)
    if calculon is None:
        print(
            f"no Calculon here: {KNOWN_RATE:.0f} plans a second and its errors, as measured before, stand in "
            "for it; to run it, git clone https://github.com/calculon-ai/calculon and give --calculon DIR"
        )
    return report([*compare_rates(calculon, options.devices, options.seconds), *compare_errors(calculon)])


class Calculon:
    """Its evaluator, from a checkout.

    Raises:
        SystemExit: No checkout, or one whose own needs are not installed.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "calculon" / "llm").is_dir():
            raise SystemExit(f"{folder} is no checkout of github.com/calculon-ai/calculon")
        sys.path.insert(0, str(folder))
        if find_spec("pandas") is None:  # imported for tables of all executions, which are not written here
            sys.modules["pandas"] = ModuleType("pandas")
        try:
            from calculon import System
            from calculon.io import read_json_file
            from calculon.llm import Llm
        except ModuleNotFoundError as error:
            raise SystemExit(f"Calculon imports {error.name}, which is not installed here") from error

        self.folder, self.llm, self.read = folder, Llm, read_json_file
        self.system = System(read_json_file(str(folder / "systems" / f"{SYSTEM}.json")))
        self.log = logging.getLogger("calculon")
        self.log.setLevel(logging.ERROR)

    def application(self, model: str) -> Any:
        return self.llm.Application(self.read(str(self.folder / "models" / f"{model}.json")))

    def evaluate(self, application: Any, execution: dict[str, Any]) -> dict[str, Any]:
        """Statistics of one execution; ``Llm.Error`` where it is refused."""
        model = self.llm(application, self.log)
        model.compile(self.system, self.llm.Execution.from_json(execution))
        model.run(self.system)
        statistics: dict[str, Any] = model.get_stats_json(False)
        return statistics

    def count_per_second(self, model: str, num_devices: int, seconds: float) -> tuple[int, float]:
        """Evaluated plans of a random sample, and their rate."""
        application, count, spent = self.application(model), 0, 0.0
        for execution in draw_executions(self.llm, application, num_devices, self.system.num_networks):
            began = time.process_time()
            try:
                self.evaluate(application, execution)
            except self.llm.Error as error:
                if not str(error).startswith("Mem tier"):
                    continue
            spent += time.process_time() - began
            count += 1
            if spent >= seconds:
                break
        return count, count / spent


def draw_executions(
    llm: Any, application: Any, num_devices: int, num_networks: int
) -> Iterator[dict[str, Any]]:
    """Executions of Calculon's search (llm/optimal_execution.py), degrees and choices drawn evenly."""
    dice = random.Random(0)
    degrees = [
        (tp, pp, num_devices // (tp * pp))
        for tp in llm.get_all_tensor_parallelisms(num_devices, application.hidden, application.attn_heads)
        for pp in llm.get_all_pipeline_parallelisms(num_devices, tp, application.num_blocks)
    ]
    while True:
        tp, pp, dp = dice.choice(degrees)
        batch = BATCH // dp * dp
        if not batch:
            continue
        sizes = list(llm.get_valid_microbatch_sizes(application.seq_size, tp, dp, batch, pp))
        chunks = list(llm.get_valid_pipeline_interleavings(application.num_blocks, pp))
        recompute = dice.choice(["full", "attn_only", "none"])
        exchange = dice.choice(["ar", "p2p_rs_ag", "rs_ag"])
        if not sizes:
            continue
        yield {
            "num_procs": num_devices, "tensor_par": tp, "pipeline_par": pp, "data_par": dp,
            "tensor_par_net": dice.randrange(num_networks) if tp > 1 else 0,
            "pipeline_par_net": dice.randrange(num_networks) if pp > 1 else 0,
            "data_par_net": dice.randrange(num_networks) if dp > 1 else 0,
            "batch_size": batch, "microbatch_size": dice.choice(sizes), "datatype": "float16",
            "fused_activation": True, "attention_type": "multihead", "activation_recompute": recompute,
            "pipeline_interleaving": dice.choice(chunks), "tensor_par_comm_type": exchange,
            "optimizer_sharding": dp > 1 and dice.random() < 0.5,
            "tensor_par_overlap": dice.choice(["none", "ring", "pipe"]) if tp > 1 else "none",
            "seq_par_ag_redo": llm.can_redo_ag(exchange, recompute) and dice.random() < 0.5,
            "data_par_overlap": dp > 1 and dice.random() < 0.5, "weight_offload": dice.random() < 0.5,
            "activations_offload": recompute != "full" and dice.random() < 0.5,
            "optimizer_offload": dice.random() < 0.5, "training": True,
        }  # fmt: skip


def compare_rates(calculon: Calculon | None, device_counts: list[int], seconds: float) -> list[Row]:
    """Prints a line for each model and count."""
    evaluate("gpt2", 8, 64)  # reads weights and tables once, as an import would
    print(f"\n{'plans a second and core':32}{'Calculon':>18}{'perfcast':>20}{'ratio':>8}")
    rows = []
    for (theirs, ours), devices in product(MODELS.items(), device_counts):
        their_count, their_rate = 0, KNOWN_RATE
        if calculon is not None:
            their_count, their_rate = calculon.count_per_second(theirs, devices, seconds)
        our_count, our_rate = evaluate(ours, devices, BATCH)
        ratio = our_rate / their_rate
        what = f"{theirs}, {devices:,} devices: rate over Calculon's"
        rows.append(Row(what, ratio, "", LEAST_RATIO, "at least", "docs/accuracy.md"))
        print(
            f"{f'{theirs}, {devices:,} devices':32}{f'{their_rate:,.0f} ({their_count:,})':>18}"
            f"{f'{our_rate:,.0f} ({our_count:,})':>20}{ratio:8.1f}",
            flush=True,
        )
    print(f"(plans evaluated in brackets; meant to reach {LEAST_RATIO:.0f})")
    return rows


def evaluate(name: str, num_devices: int, batch: int) -> tuple[int, float]:
    """Plans with a step time, causes that add up to it and a peak of memory, and their rate."""
    cluster = load_cluster(f"dgx-a100:{num_devices}")
    device = resolve_device(cluster.device)
    cost_model = resolve_cost_model("learned", device)
    entry = load_model(name)
    model = read_transformer(entry.config, entry.architecture)
    training = Training(framework="megatron", attention="math", dtype="fp16")
    with garbage_collection_paused():  # as a search does
        began = time.process_time()
        fitting = enumerate_fitting(model, cluster, device, training, batch, SEQUENCE_LENGTH, Space())
        result = evaluate_plans(
            model, cluster, fitting.plans, training, SEQUENCE_LENGTH, device=device, cost_model=cost_model,
            memory=fitting.memory,
        )  # fmt: skip
        spent = time.process_time() - began
    causes = sum(result.seconds_by_cause.values())
    whole = (
        np.isfinite(result.step_seconds) & np.isclose(causes, result.step_seconds) & (result.peak_bytes > 0)
    )
    count = int(whole.sum())
    return count, count / spent


def compare_errors(calculon: Calculon | None) -> list[Row]:
    """Prints the eight cases; mean and worst error beside Calculon's."""
    names = (*(("Calculon",) if calculon is not None else ()), *PROGRAMS)
    print(f"\n{'step seconds':32}{'measured':>9}" + "".join(f"{name:>22}" for name in names))
    errors: dict[str, list[float]] = {name: [] for name in names}
    for case, mode in product(CASES, ("full", "selective")):
        measured = case.full_seconds if mode == "full" else case.selective_seconds
        line = f"{f'{case.theirs}, {mode}':32}{measured:9.2f}"
        for name in names:
            if calculon is not None and name == "Calculon":
                seconds = their_seconds(calculon, case, mode)
            else:
                seconds = our_seconds(case, mode, *PROGRAMS[name])
            errors[name].append(seconds / measured - 1)
            line += f"{f'{seconds:.2f} ({100 * errors[name][-1]:+.1f} %)':>22}"
        print(line, flush=True)
    means = {name: float(np.mean(np.abs(values))) for name, values in errors.items()}
    worst = {name: float(np.max(np.abs(values))) for name, values in errors.items()}
    for title, figures in (("mean error", means), ("worst error", worst)):
        print(f"{title:41}" + "".join(f"{f'{100 * figures[name]:.2f} %':>22}" for name in names))
    own, (known_mean, known_worst) = next(iter(PROGRAMS)), KNOWN_ERRORS
    mean, most = means.get("Calculon", known_mean), worst.get("Calculon", known_worst)
    return [
        Row("mean error of eight steps", 100 * means[own], "%", 100 * mean, source="Calculon's own"),
        Row("worst error of eight steps", 100 * worst[own], "%", 100 * most, source="Calculon's own"),
    ]


def their_seconds(calculon: Calculon, case: Case, mode: str) -> float:
    """Calculon's, from its own file of the case."""
    suffix = "full" if mode == "full" else "seqsel"
    path = calculon.folder / "validation" / "seqsel" / "tab5" / f"{case.theirs}_{suffix}.json"
    statistics = calculon.evaluate(calculon.application(case.theirs), calculon.read(str(path)))
    return float(statistics["total_time"])


def our_seconds(case: Case, mode: str, framework: str, dtype: str) -> float:
    """By the closed form, as the search weighs plans; unfused attention, as the paper ran it."""
    plan = Plan(
        tensor_parallel=8, pipeline_parallel=case.stages, virtual_stages_per_rank=case.chunks,
        schedule="interleaved" if case.chunks > 1 else "1f1b", micro_batch_size=case.micro_batch,
        num_micro_batches=case.batch // case.micro_batch, recompute=mode,
        sequence_parallel=mode == "selective",
    )  # fmt: skip
    training = Training(framework=framework, attention="math", dtype=dtype)
    forecast = predict_plan(
        case.ours, f"dgx-a100:{plan.world_size}", plan, training=training, method="closed_form",
        recommendations=False, memory=False,
    )  # fmt: skip
    return forecast.time.step_seconds


if __name__ == "__main__":
    raise SystemExit(main())
