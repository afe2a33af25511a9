"""What ``perfcast predict`` writes: the terminal, and the files that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfcast.cli.output import Outputs, write_result
from perfcast.cli.progress import status
from perfcast.errors import QuestionError
from perfcast.prediction.request.parallel_program import ParallelProgramRequest
from perfcast.prediction.request.plan import PlanRequest
from perfcast.prediction.request.recommender import RecommenderRequest
from perfcast.printer.streams import say
from perfcast.verbs.predict.answer import answer_plan, answer_request
from perfcast.verbs.predict.question import PredictQuestion
from perfcast.verbs.predict.request import request_of
from perfcast.verbs.predict.result import StepResult

if TYPE_CHECKING:
    from perfcast.prediction.step.priced import PricedStep


def answer(asked: PredictQuestion, outputs: Outputs, chakra: str | None) -> None:
    """The step, and its Chakra traces in a folder, if one is named."""
    request = request_of(asked, with_timeline=outputs.draws or outputs.timeline is not None)
    if chakra and isinstance(request, ParallelProgramRequest):
        raise QuestionError("--chakra: of a plan, not of --world-size")
    if chakra and isinstance(request, RecommenderRequest):
        raise QuestionError("--chakra: of a plan")
    doing = f"capturing and pricing {asked.model}"
    if isinstance(request, PlanRequest):
        with status(doing):
            result, priced = answer_plan(asked, request)
        if chakra is not None:
            _write_chakra(priced, chakra)
        write_result(outputs, result)
        return
    with status(doing):
        found = answer_request(asked, request)
    if chakra and isinstance(found, StepResult):
        from perfcast.traces.chakra.astra_sim import write_folder
        from perfcast.traces.chakra.from_graph import chakra_from_forecast

        write_folder(chakra_from_forecast(found), chakra)
    write_result(outputs, found, written=[chakra] if chakra else [])


def _write_chakra(priced: PricedStep, folder: str) -> None:
    """All ranks and what ASTRA-sim needs beside them; one rank of each stage where all are too many.

    ASTRA-sim takes no single device.
    """
    from perfcast.traces.chakra.astra_sim import dimensions_of, write_astra_sim, write_folder
    from perfcast.traces.chakra.from_plan import chakra_from_step

    workload, cluster = chakra_from_step(priced, with_waits=False), priced.planned.step.cluster
    if 1 < len(workload.traces) == cluster.num_devices:
        write_astra_sim(workload, folder, dimensions_of(cluster))
    else:
        write_folder(workload, folder)
    for note in workload.notes:
        say(f"note: {note}", is_error=True)
    say(f"wrote {folder}", is_error=True)
