"""The parts of a check, in the order in which they are run: what tells most for its time comes first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfcast.errors import UnknownNameError
from perfcast.evidence.gpu_check.place import Found, Place

_MODEL = "model: "
#: Comes before all others, of which it is none: what it finds is said of the whole file.
MACHINE = "machine"
#: Names of ``models.MODELS``, said here so that asking which parts there are imports no torch.
_MODELS = (
    "gpt2", "bert-large", "vit-b-16", "resnet-50", "qwen2.5-0.5b", "gpt2-medium fp32", "t5-base", "opt-350m",
    "decoder fp32", "perceptron fp32",
)  # fmt: skip
_DRY_MODELS = ("decoder fp32", "perceptron fp32")


@dataclass(frozen=True)
class Part:
    """A part, how long it is thought to take on a GPU, and when it is stopped for the sake of the others."""

    name: str
    usual_seconds: float
    most_seconds: float


def parts_of(device: str) -> tuple[Part, ...]:
    """All parts that are run on a device: of a dry run fewer models."""
    models = _DRY_MODELS if device == "cpu" else _MODELS
    return (
        Part("calibration", 150.0, 300.0),
        *(Part(_MODEL + name, 45.0, 150.0) for name in models),
        Part("kernels", 45.0, 150.0),
        Part("streams", 30.0, 90.0),
        Part("replay", 120.0, 240.0),
        Part("collectives", 120.0, 300.0),
    )


def chosen_parts(device: str, names: tuple[str, ...]) -> tuple[Part, ...]:
    """Those that are asked for, all by default; 'models' are all models.

    Raises:
        UnknownNameError: No such part.
    """
    every = parts_of(device)
    known = {part.name: part for part in every}
    for name in names:
        if name not in known and name != "models":
            raise UnknownNameError("part", name, known, f"Known: models, {', '.join(known)}.")
    return tuple(
        part
        for part in every
        if not names or part.name in names or ("models" in names and part.name.startswith(_MODEL))
    )


def run_part(name: str, place: Place) -> Found:
    """Run one part in this process.

    Raises:
        LeftOutError: This machine has not what it takes.
        Exception: Whatever goes wrong in it.
    """
    if name == MACHINE:
        from perfcast.evidence.gpu_check.machine import check_machine

        return check_machine(place)
    if name.startswith(_MODEL):
        from perfcast.evidence.gpu_check.models import check_model, find_model

        return check_model(place, find_model(name.removeprefix(_MODEL)))
    return _checks()[name](place)


def _checks() -> dict[str, Callable[[Place], Found]]:
    from perfcast.evidence.gpu_check.collectives import check_collectives
    from perfcast.evidence.gpu_check.kernels import check_calibration, check_kernels
    from perfcast.evidence.gpu_check.replay import check_replay
    from perfcast.evidence.gpu_check.streams import check_streams

    return {
        "calibration": check_calibration,
        "kernels": check_kernels,
        "streams": check_streams,
        "replay": check_replay,
        "collectives": check_collectives,
    }
