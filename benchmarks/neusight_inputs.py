"""NeuSight's nets with the code's four inputs and with the paper's five, trained alike on the same rows.

python benchmarks/neusight_inputs.py DATA [--nets linear bmm] [--rows 12000] [--epochs 40] [--seeds 0 1 2]

DATA holds the study's tables (``neusight/*.parquet``). Each net is trained on a random sample of the rows
that train it, by the study's recipe, with each seed twice; ``validation`` is the fifth of the sample that was
held out, ``seen`` the study's test tables on the devices trained on, ``unseen`` those of other devices; tiles
are those measured. Printed: mean absolute errors in percent, mean over seeds and their range.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from perfcast.errors import InputError
from perfcast.evidence.train.loop import train
from perfcast.evidence.train.published.neusight import (
    build_task,
    measured_tiles,
    measured_waves,
    training_rows,
)
from perfcast.evidence.train.published.study_rows import (
    PRODUCT_SIZES,
    TRAINING_TABLES,
    VECTOR_SIZES,
    StudyRows,
    read_study_rows,
    select_devices,
)
from perfcast.evidence.train.task import Task
from perfcast.printer.streams import say
from perfcast.published.nets.mlp import build_mlp
from perfcast.published.neusight.nets import NETS, NUM_LAYERS, NUM_OUTPUTS, PRODUCT_NETS, WIDTH
from perfcast.published.neusight.waves import Waves

VENDOR = "nvidia"
TEST_TABLES = {"linear": "linear_test", "bmm": "bmm_test", "vec": "elem_test", "softmax": "softmax_test",
               "ln": "ln_test"}  # fmt: skip
COUNTS = (4, 5)


@dataclass(frozen=True)
class Score:
    """Mean absolute relative errors of one trained net."""

    net: str
    num_inputs: int
    seed: int
    validation: float
    seen: float
    unseen: float
    died: bool


def inputs_of(waves: Waves, count: int) -> np.ndarray:
    """[n, count]: the code's four or the paper's five."""
    return (waves.inputs if count == 4 else waves.with_intensity).astype(np.float32)


def task_of(name: str, rows: StudyRows, count: int) -> Task:
    """What the net with so many inputs is to learn."""
    waves = measured_waves(name, rows, measured_tiles(name, rows))
    build = partial(build_mlp, count, NUM_OUTPUTS, WIDTH, NUM_LAYERS)
    return replace(
        build_task(name, rows, VENDOR), name=f"{name}{count}", inputs=inputs_of(waves, count), build=build
    )


def score(name: str, tables: Tables, count: int, seed: int, epochs: int, folder: Path) -> Score:
    """Train one net and score it on rows that it was not trained on."""
    task = task_of(name, tables.training, count)
    place = folder / f"{name}{count}-{seed}"
    place.mkdir(parents=True, exist_ok=True)
    outcome = train(task, seed, epochs, place)
    net = task.build()
    net.load_state_dict({key: torch.from_numpy(value) for key, value in outcome.weights.items()})
    errors = {}
    for where, rows in (("seen", tables.seen), ("unseen", tables.unseen)):
        waves = measured_waves(name, rows, measured_tiles(name, rows))
        with torch.inference_mode():
            outputs = net(torch.from_numpy(inputs_of(waves, count))).numpy().astype(np.float64)
        errors[where] = float(np.mean(np.abs(waves.seconds(outputs) / rows.seconds - 1)))
    return Score(
        name, count, seed, outcome.validation_mape, errors["seen"], errors["unseen"],
        bool(outcome.deaths) or outcome.died_at is not None,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tables:
    """Rows of one net."""

    training: StudyRows
    seen: StudyRows
    unseen: StudyRows


def read_tables(data: Path, name: str, num_rows: int) -> Tables:
    """A sample of the training rows, and the test tables by whether their device is trained on."""
    sizes = PRODUCT_SIZES if name in PRODUCT_NETS else VECTOR_SIZES
    rows = training_rows(
        select_devices(read_study_rows(data, TRAINING_TABLES[sizes], sizes), VENDOR, ()), name
    )
    chosen = np.sort(np.random.default_rng(0).permutation(len(rows))[:num_rows])
    devices = set(rows.device_names().tolist())
    test = timed(select_devices(read_study_rows(data, TEST_TABLES[name], sizes), VENDOR, ()), name)
    is_seen = np.array([device in devices for device in test.device_names()])
    return Tables(rows.take(chosen), test.take(is_seen), test.take(~is_seen))


def timed(rows: StudyRows, name: str) -> StudyRows:
    """Those of the net whose kernel names tell their tiles: others have names of kernels without any."""
    rows = rows.take(np.isin(rows.operation.astype(str), NETS[name].operations))
    if name not in PRODUCT_NETS:
        return rows
    known = {kernel: tells_tile(rows, kernel) for kernel in set(rows.kernel_name)}
    return rows.take(np.array([known[kernel] for kernel in rows.kernel_name]))


def tells_tile(rows: StudyRows, kernel: str) -> bool:
    """Whether a kernel's name tells its tile."""
    try:
        measured_tiles("linear", rows.take(rows.kernel_name == kernel))
    except InputError:
        return False
    return True


def lines_of(scores: Sequence[Score]) -> Iterator[str]:
    """The table, a net's two rows together."""
    yield f"{'net':8} {'inputs':>6} {'validation':>18} {'seen devices':>18} {'unseen devices':>18}  restarts"
    for net in dict.fromkeys(one.net for one in scores):
        for count in COUNTS:
            mine = [one for one in scores if (one.net, one.num_inputs) == (net, count)]
            cells = " ".join(
                f"{spread([getattr(one, name) for one in mine]):>18}"
                for name in ("validation", "seen", "unseen")
            )
            yield f"{net:8} {count:6} {cells}  {sum(one.died for one in mine)} of {len(mine)}"


def spread(errors: Sequence[float]) -> str:
    """Mean and range in percent."""
    percent = 100 * np.array(errors)
    return f"{percent.mean():.1f} ({percent.min():.1f}-{percent.max():.1f})"


def main() -> None:
    """Train, score and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--nets", nargs="+", default=list(NETS), choices=list(NETS))
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("neusight-inputs"), help="keeps checkpoints")
    options = parser.parse_args()
    torch.set_num_threads(1)
    scores: list[Score] = []
    for name in options.nets:
        tables = read_tables(options.data, name, options.rows)
        for seed in options.seeds:
            for count in COUNTS:
                scores.append(score(name, tables, count, seed, options.epochs, options.folder))
                say(json.dumps(plain(scores[-1])), is_error=True)
    for line in lines_of(scores):
        say(line)


def plain(one: Score) -> Mapping[str, object]:
    """As a line of JSON."""
    return vars(one)


if __name__ == "__main__":
    main()
