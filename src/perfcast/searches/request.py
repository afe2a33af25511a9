"""What is asked of a search for the best plan of a training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from perfcast.core.plan import Plan
from perfcast.core.training import Training
from perfcast.cost.model import CostModel
from perfcast.errors import InputError
from perfcast.frameworks.load import load_framework, load_training_profile
from perfcast.frameworks.profile import TrainingProfile
from perfcast.prediction.model import Model
from perfcast.prediction.step.constants import StepConstants
from perfcast.searches.prices_file import PriceList
from perfcast.searches.ranking.objectives import OBJECTIVES
from perfcast.searches.report.baseline import Baseline
from perfcast.searches.space.definition import Space
from perfcast.searches.space.support import check_supported, supported_space

#: The best few hundred by formula are simulated, as far as they can still turn out best.
NUM_SIMULATED = 200
#: The plan of so many devices.
MakePlan = Callable[[int], Plan]


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """The best plan of a training on one or several clusters, and what is said beside it.

    Attributes:
        model: Catalog name, a Hugging Face config.json or its folder, the sizes, or a model read before.
        clusters: Names with ``:N``, or files; several are compared.
        sequence_length: None takes the model's own.
        cost_models: By device; a name or an object. Devices that are not there take the default.
        space: What is searched.
        any_framework: Whether plans are offered that the training's framework cannot run.
        objective: A name of ``objectives.OBJECTIVES``.
        tokens: Of the whole training, for 'time-to-train' and a deadline.
        deadline_seconds: Plans that train longer are left out.
        prices: Of a device and hour; None: nothing costs.
        max_memory_fraction: Of the device's memory that a plan may take.
        min_mfu: Plans with less are left out.
        top: Plans that the result ranks.
        num_simulated: At most so many of the best are simulated (see ``shortlist``); 0: the order of the
            formulas stands.
        num_processes: That evaluate and simulate plans; the result is the same.
        constants: Of a step as a whole; None: the shipped ones.
        named: Plans to be explained beside the winner, by what the user called them.
        with_sensitivity: Whether to ask how the winner changes with network, memory and batch.
        baseline: Another searcher, whose choice is explained beside the winner too.
        defaults: What was chosen of the precision before, in words.
    """

    model: Model
    clusters: tuple[str, ...]
    global_batch_size: int
    sequence_length: int | None = None
    training: Training = field(default_factory=lambda: Training(framework="megatron"))
    cost_models: Mapping[str, str | CostModel | None] = field(default_factory=dict)
    space: Space = field(default_factory=Space)
    any_framework: bool = False
    objective: str = next(iter(OBJECTIVES))
    tokens: float | None = None
    deadline_seconds: float | None = None
    prices: PriceList | None = None
    max_memory_fraction: float = 1.0
    min_mfu: float | None = None
    top: int = 10
    num_simulated: int = NUM_SIMULATED
    num_processes: int = 1
    constants: StepConstants | None = None
    named: Mapping[str, MakePlan] = field(default_factory=dict)
    with_sensitivity: bool = False
    baseline: Baseline | None = None
    defaults: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.global_batch_size < 1:
            raise InputError(f"a global batch of {self.global_batch_size} sequences; it must be at least 1")
        if self.num_processes < 1:
            raise InputError(f"{self.num_processes} processes; there must be at least 1")
        if self.deadline_seconds is not None and self.tokens is None:
            raise InputError("a deadline needs the tokens of the training (--tokens)")
        if not self.any_framework:
            check_supported(self.space.fixed, self.framework.support, self.framework_title)

    @property
    def framework_title(self) -> str:
        """Of the program that trains, as its authors write it."""
        return load_framework(self.training.framework).title

    @property
    def framework(self) -> TrainingProfile:
        """What the program that trains does."""
        return load_training_profile(self.training.framework)

    @property
    def runnable_space(self) -> Space:
        """Of the space the plans that the framework can run; all with ``any_framework``."""
        return self.space if self.any_framework else supported_space(self.space, self.framework.support)
