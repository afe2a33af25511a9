"""How many plans deal layers out to stages: few different ways, each with few different stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfcast.core.arrays import Integers
from perfcast.core.different import different_rows
from perfcast.core.plan import SCHEDULES, Plan
from perfcast.core.plans.table import PlanTable
from perfcast.frameworks.load import load_training_profile
from perfcast.workload.blocks.ends import training as ends
from perfcast.workload.blocks.step.messages import MESSAGES
from perfcast.workload.blocks.step.stages import ModelPart, split_model
from perfcast.workload.plan_columns.layers import Kind, Setting

#: A row of layers of a chunk: (index into the model's kinds, count).
Content = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Cut:
    """One way.

    Attributes:
        stages: The different ones, each the chunks that a rank runs (of 'dualpipe' its own and the mirrored).
        stage_kinds: Which of them each stage is, [pp].
    """

    stages: tuple[tuple[Content, ...], ...]
    stage_kinds: tuple[int, ...]


@dataclass(frozen=True)
class Cuts:
    """Of n plans.

    Attributes:
        kinds: Of layers and ends that the model has, in its order.
        cuts: The different ways.
        place: Which of them each plan takes, shape [n].
    """

    kinds: tuple[Kind, ...]
    cuts: tuple[Cut, ...]
    place: Integers


def cut_models(setting: Setting, plans: PlanTable) -> Cuts:
    """How every plan cuts the model into stages.

    Raises:
        PlanError: Stages whose layers do not add up to the model's; fewer layers than parts.
    """
    mirrored = plans.schedule == SCHEDULES.index("dualpipe")
    first, place = different_rows(
        [
            plans.pipeline_parallel,
            plans.virtual_stages_per_rank,
            mirrored,
            plans.recompute_layers,
            plans.split,
        ]
    )
    balances = load_training_profile(setting.training.framework).balances_stages
    split = [
        split_model(setting.model, plans.plan(at), balances=balances, tuning=setting.training.tuning)
        for at in first.tolist()
    ]
    sorts = dict.fromkeys(sort for parts in split for part in parts for sort, _ in part.layers)
    further = (ends.PREDICTION,) if setting.model.num_prediction_layers else ()
    launches = load_training_profile(setting.training.framework).kernels.message_launches
    several = bool((plans.pipeline_parallel > 1).any())
    messages = (MESSAGES,) if launches and several else ()
    kinds: tuple[Kind, ...] = (ends.EMBEDDING, *sorts, *further, ends.HEAD, *messages)
    cuts = tuple(
        _cut(setting, parts, plans.plan(at), kinds) for parts, at in zip(split, first.tolist(), strict=True)
    )
    return Cuts(kinds, cuts, place)


def _cut(setting: Setting, parts: Sequence[ModelPart], plan: Plan, kinds: Sequence[Kind]) -> Cut:
    count = plan.pipeline_parallel
    sends = ((kinds.index(MESSAGES), 1),) if MESSAGES in kinds and count > 1 else ()
    contents = [(*_content(part, kinds), *sends) for part in parts]
    rows = [tuple(contents[stage::count]) for stage in range(count)]
    if plan.schedule == "dualpipe":
        rows = [(*row, *rows[count - 1 - stage]) for stage, row in enumerate(rows)]
    different = tuple(dict.fromkeys(rows))
    return Cut(different, tuple(different.index(row) for row in rows))


def _content(part: ModelPart, kinds: Sequence[Kind]) -> Content:
    return tuple((kinds.index(kind), count) for kind, count in part.contents())
