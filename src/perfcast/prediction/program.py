"""Which program a forecast is of: one rule for every verb, on one device as under a plan.

Framework 'pytorch' is the model's own modules, run eagerly or compiled, as they are captured; every other
framework is its kernels, built from the model's sizes. Where none is named, a training is that of the
framework that the plan suggests (``frameworks.choice``), on one device PyTorch's; a transformer that answers
token by token is served by vLLM, and whatever else infers is run by PyTorch.
"""

from __future__ import annotations

from dataclasses import replace

from perfcast.core.machine.hardware import Device
from perfcast.core.mode import Mode
from perfcast.core.plan import Plan
from perfcast.core.program import StepProgram
from perfcast.core.training import DTYPES, FRAMEWORKS, Training
from perfcast.core.words import known_word
from perfcast.errors import PlanError, UnknownNameError
from perfcast.frameworks.choice import default_framework
from perfcast.frameworks.load import load_framework, load_inference_profiles, load_training_profile
from perfcast.frameworks.serving import load_serving_profiles
from perfcast.frameworks.serving_memory import load_serving_memory
from perfcast.prediction.model import NamedModel, read_model
from perfcast.prediction.request.memory import PlanMemoryRequest
from perfcast.prediction.request.one_device import Request
from perfcast.prediction.request.plan import PlanRequest

PYTORCH = "pytorch"
#: Whose kernels answer where none is named.
DEFAULT_SERVING = "vllm"


def choose_program(
    model: NamedModel,
    mode: Mode,
    plan: Plan | None = None,
    *,
    framework: str | None = None,
    compiles: bool = False,
    is_local: bool = False,
) -> StepProgram:
    """Whose kernels run a step.

    Args:
        plan: None for one device.
        framework: As it is asked for; None chooses.
        compiles: Whether torch.compile is asked for.
        is_local: Whether a processor runs it, which runs the model's own modules alone.

    Raises:
        UnknownNameError: No framework of that name does what the mode says.
        PlanError: A framework that cannot run the model, or has nothing to compile.
    """
    known = FRAMEWORKS if mode == "train" else tuple(load_inference_profiles())
    name = framework or _usual(model, mode, plan or Plan(), is_local)
    if name not in known:
        raise UnknownNameError("framework", name, (*known, *_other(mode)), _hint(name, mode, known))
    if name != PYTORCH and is_local:
        raise PlanError(f"--framework {name}: a processor runs the model's own modules alone")
    if not model.has_sizes and name != PYTORCH and (mode != "train" or plan is None):
        raise PlanError(
            f"--framework {name}: its kernels are known of transformers by their sizes alone; "
            f"{model.name} runs as its own modules (--framework pytorch)"
        )
    is_captured = model.can_be_captured and (name == PYTORCH or not model.has_sizes)
    if compiles and not is_captured and not _can_compile(name, mode):
        raise PlanError(_nothing_to_compile(name))
    return StepProgram(
        framework=name,
        is_captured=is_captured,
        is_compiled=compiles,
        what=_what(name, is_captured, compiles),
        instead=_instead(model, mode, is_captured, compiles, is_local),
    )


def choose_serving_program(model: NamedModel, framework: str | None) -> StepProgram:
    """Whose engines answer requests as they come.

    Raises:
        UnknownNameError: The framework has none, or there is none of that name.
        PlanError: It cannot run the model.
    """
    program = choose_program(model, "decode", framework=framework)
    load_serving_memory(program.framework)  # refused where it does not serve requests as they come
    others = [name for name in load_serving_profiles() if name != program.framework]
    return replace(program, instead=f"--framework {', '.join(others)}: another's engines")


def _other(mode: Mode) -> tuple[str, ...]:
    """Frameworks of what the mode does not do, by which a wrong letter is found too."""
    return tuple(load_inference_profiles()) if mode == "train" else FRAMEWORKS


def _hint(name: str, mode: Mode, known: tuple[str, ...]) -> str:
    does, other = ("trains", "serves") if mode == "train" else ("infers", "trains")
    only = f"{name} {other} only. " if name in _other(mode) else ""
    return f"{only}What {does}: {', '.join(known)}."


def program_of(request: PlanRequest | PlanMemoryRequest, model: NamedModel, device: Device) -> StepProgram:
    """What runs the step of a plan.

    Raises:
        UnknownNameError: No such framework.
        PlanError: Two frameworks, or one that cannot run the model.
    """
    training, framework, compiles = request.training, request.framework, request.compiles
    if training is not None and request.mode == "train":
        if framework not in (None, training.framework):
            raise PlanError(f"framework {framework}, but a training by {training.framework}")
        framework, compiles = training.framework, training.compiles
    return choose_program(
        model,
        request.mode,
        request.plan,
        framework=framework,
        compiles=compiles,
        is_local=device.is_cpu,
    )


def training_by(
    program: StepProgram, request: PlanRequest | PlanMemoryRequest, dtype: str
) -> Training | None:
    """How the program trains; None where it infers.

    Raises:
        UnknownNameError: A precision that no training has.
    """
    if request.mode != "train":
        return None
    if request.training is not None:
        return request.training
    return Training(
        dtype=known_word("dtype", dtype, DTYPES),
        framework=known_word("framework", program.framework, FRAMEWORKS),
        compiles=program.is_compiled,
    )


def modules_of(request: Request, device: Device) -> StepProgram:
    """The model's own modules on one device.

    Raises:
        InputError: An unknown model.
    """
    return choose_program(
        read_model(request.model),
        request.mode,
        framework=PYTORCH,
        compiles=request.compile,
        is_local=device.is_cpu,
    )


def _usual(model: NamedModel, mode: Mode, plan: Plan, is_local: bool) -> str:
    if mode == "train":
        return default_framework(plan) if model.has_sizes else PYTORCH
    return DEFAULT_SERVING if model.has_sizes and model.sizes.is_causal and not is_local else PYTORCH


def _can_compile(framework: str, mode: Mode) -> bool:
    """Whether torch.compile fuses something of a framework's modules in training."""
    return mode == "train" and load_training_profile(framework).compiled is not None


def _nothing_to_compile(framework: str) -> str:
    return (
        f"--compile: {load_framework(framework).title}'s kernels are fused as they are, so there is nothing "
        "to compile; leave it out, or take --framework pytorch, whose modules torch.compile fuses"
    )


def _what(framework: str, is_captured: bool, is_compiled: bool) -> str:
    if not is_captured:
        how = ", its layers compiled by torch.compile" if is_compiled else ""
        return f"{load_framework(framework).title}'s kernels, built from the model's sizes{how}"
    how = "compiled by torch.compile" if is_compiled else "run eagerly by PyTorch"
    return f"the model's own modules, {how}"


def _instead(model: NamedModel, mode: Mode, is_captured: bool, is_compiled: bool, is_local: bool) -> str:
    """The options that change it."""
    if is_local:
        return ""
    others = "megatron, fsdp, …" if mode == "train" else "vllm, sglang, trtllm"
    if not is_captured:
        return "--framework pytorch: the model's own modules" if model.can_be_captured else ""
    options = ["without --compile: eagerly" if is_compiled else "--compile: fused"]
    if model.has_sizes:
        options.append(f"--framework {others}: a framework's kernels")
    return "; ".join(options)
