"""What a step of inference adds to the interval of its prices, by what the forecast knows of its program.

Where one CUDA graph holds the step, no host is in the forecast: what the program does between kernels and
between steps is left to the interval. Where a host issues every kernel it is in the forecast, and the step is
surer; but long prompts, which keep a device at its power limit, are less sure than short ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from perfcast.core.mode import Mode
from perfcast.cost.interval import STEP_ERROR, StepError
from perfcast.errors import CatalogError
from perfcast.figures import parse_figure, parse_table, parse_toml

#: 'replayed': a prompt or a token by one CUDA graph; 'issued': kernel by kernel by a host that is forecast.
InferenceStep = Literal["replayed", "issued_token", "issued_prompt", "issued_long_prompt"]
INFERENCE_STEPS: tuple[InferenceStep, ...] = get_args(InferenceStep)
#: Tokens of a replica's prompts together, beyond which they are long.
LONG_PROMPT_TOKENS = 2048


def inference_step(mode: Mode, num_tokens: float, *, issues_kernels: bool) -> InferenceStep:
    """Which kind a step is.

    Args:
        num_tokens: That a replica reads in the step.
    """
    if not issues_kernels:
        return "replayed"
    if mode == "decode":
        return "issued_token"
    return "issued_long_prompt" if num_tokens > LONG_PROMPT_TOKENS else "issued_prompt"


def step_error_of(mode: Mode, num_tokens: float, *, issues_kernels: bool) -> StepError:
    """What a step adds; of a training the same for all."""
    if mode == "train":
        return StepError.alike(STEP_ERROR)
    return load_inference_errors()[inference_step(mode, num_tokens, issues_kernels=issues_kernels)]


@cache
def load_inference_errors() -> Mapping[InferenceStep, StepError]:
    """The shipped ones."""
    return parse_inference_errors(Path(str(resources.files("perfcast.prediction.step") / "inference.toml")))


def parse_inference_errors(path: Path) -> Mapping[InferenceStep, StepError]:
    """Those of a file, checked.

    Raises:
        CatalogError: A kind is missing, or a figure without unit or source.
    """
    content = parse_toml(path)
    sources, below, above = (parse_table(content, key, path.name) for key in ("sources", "below", "above"))
    found: dict[InferenceStep, StepError] = {}
    for kind in INFERENCE_STEPS:
        if kind not in below or kind not in above:
            raise CatalogError(f"{path.name}: no width of '{kind}' below or above")
        ends = (
            parse_figure(table[kind], sources, f"{path.name}.{key}.{kind}").si_value
            for key, table in (("below", below), ("above", above))
        )
        found[kind] = StepError(*ends)
    return MappingProxyType(found)
