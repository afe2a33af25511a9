"""What answers the question of ``perfcast search``."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from perfcast.errors import QuestionError
from perfcast.verbs.door import asks
from perfcast.verbs.result import shown
from perfcast.verbs.search.baseline import find_baseline
from perfcast.verbs.search.deployments import deployments_request_of
from perfcast.verbs.search.question import FleetQuestion, SearchQuestion
from perfcast.verbs.search.request import inference_request_of, sweep_job_of, training_request_of
from perfcast.verbs.search.result import BatchesFound, CellsFound, DeploymentsFound, PlansFound
from perfcast.verbs.search.sweep import cells_of, pool_of, store_of

if TYPE_CHECKING:
    from perfcast.searches.resolve import Progress
    from perfcast.searches.sweep.run import SweepProgress
    from perfcast.verbs.answer import OnProgress

SearchFound = PlansFound | BatchesFound | DeploymentsFound | CellsFound

#: What only some searches have a use for.
_OF_TRAINING = (
    "min_mfu", "tokens", "deadline", "compare", "sensitivity", "hand_over", "any_framework", "no_simulate",
    "num_simulated", "processes", "compile",
)  # fmt: skip
_OF_INFERENCE = ("max_ttft", "max_tpot", "kv_cache_dtype")
_NOT_OF_DEPLOYMENTS = ("global_batch_size", "sequence_length")
_NOT_OF_SWEEPS = (*_OF_INFERENCE, "compare", "sensitivity", "hand_over")


def answer(asked: SearchQuestion, *, on_progress: OnProgress | None = None) -> SearchFound:
    """The best plans, deployments, or plans of every cell of a grid.

    Raises:
        InputError: A value that an option cannot have, an unknown name, nothing that can run.
        QuestionError: Options that contradict, or that the search asked for has no use for.
    """
    from perfcast.searches.report.compose import compose_report
    from perfcast.searches.serving.batches import report_serving
    from perfcast.searches.serving.search import search_deployments

    check_search(asked)
    watch = _watch(on_progress)
    if asked.is_sweep:
        return _sweep(asked, on_progress)
    if asked.search_mode == "serving":
        return shown(DeploymentsFound, search_deployments(deployments_request_of(asked), watch), asked)
    if asked.search_mode == "train":
        return shown(PlansFound, compose_report(training_request_of(asked), watch), asked)
    return shown(BatchesFound, report_serving(inference_request_of(asked), watch), asked)


def check_search(asked: SearchQuestion) -> None:
    """Raise where something is said that the search asked for has no use for.

    Raises:
        QuestionError: Names it.
    """
    mode = asked.search_mode
    if asked.is_sweep:
        _check_sweep(asked)
        return
    if asked.address:
        raise QuestionError("--address is of --backend ray")
    if mode == "serving":
        _refuse(asked, (*_OF_TRAINING, *_NOT_OF_DEPLOYMENTS), "not of --mode serving")
        return
    _refuse(asked, tuple(one.name for one in fields(FleetQuestion)), f"of --mode serving, not of {mode}")
    if mode == "train":
        _refuse(asked, _OF_INFERENCE, "of inference (--mode decode)")
        return
    _refuse(asked, _OF_TRAINING, "of training")
    _refuse(asked, ("optimizer",), "of training")
    if find_baseline(asked.cost_model) is not None:
        raise QuestionError(f"--cost-model {asked.cost_model} is of training")


def _check_sweep(asked: SearchQuestion) -> None:
    _refuse(asked, _NOT_OF_SWEEPS, "of a single search, not of a sweep")
    if find_baseline(asked.cost_model) is not None:
        raise QuestionError(f"--cost-model {asked.cost_model} is of a single search")
    if asked.search_mode != "train":
        raise QuestionError("a sweep is of training, and written as a table or with --json")


def _refuse(asked: SearchQuestion, names: tuple[str, ...], reason: str) -> None:
    given = asked.said(names)
    if given:
        raise QuestionError(f"{', '.join(given)}: {reason}")


def _sweep(asked: SearchQuestion, on_progress: OnProgress | None) -> CellsFound:
    from perfcast.searches.sweep.plans import plan_sweep
    from perfcast.searches.sweep.run import run_sweep

    def watch(progress: SweepProgress) -> None:
        if on_progress is not None:
            done, total = progress.num_finished, progress.num_cells
            on_progress(done / max(1, total), f"{done} of {total} cells {progress.note}".rstrip())

    cells, job = cells_of(asked), sweep_job_of(asked)
    pool = pool_of(asked)
    found = run_sweep(cells, plan_sweep(job), store_of(asked), open_pool=pool, watch=watch)
    return shown(CellsFound, found, asked, objective=job.objective)


def _watch(on_progress: OnProgress | None) -> Progress:
    """What is done of a part, as a share and in words."""

    def watch(part: str, done: int, total: int) -> None:
        if on_progress is not None:
            count = f" {done:,} of {total:,}" if total else ""
            on_progress(done / total if total else None, f"{part}{count}")

    return watch


search = asks(
    SearchQuestion,
    answer,
    returns="The best plans of a training and why the winner wins; of inference plans and batches, or "
    "deployments; of a grid the best plans of every cell.",
)
