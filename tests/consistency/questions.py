"""The same question through every verb that answers it, each asked of a model of the catalog.

A question is a model, what is done with it, where, and how much; its answers are figures under one set of
names. Answers that name the same program must be equal to the digit.
"""

from __future__ import annotations

import io
import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from perfcast.cli.main import run
from perfcast.core.mode import MODES, Mode
from perfcast.core.training import check_trainable
from perfcast.errors import ModelError
from perfcast.prediction.model import NamedModel, read_model

DEVICE, CLUSTER, NUM_DEVICES = "h100-sxm", "dgx-h100", 8
#: Of checkpoints in formats that the first does not multiply in.
NEWER_DEVICE, NEWER_CLUSTER = "b200", "hgx-b200"
#: Tokens of a sequence: few, since length is no part of what is asked here.
LENGTH = 64
ROOF = "--cost-model roofline"
#: What two answers to one question have in common, as far as both say it.
FIGURES = (
    "step_seconds", "step_seconds_low", "step_seconds_high", "needed_bytes", "peak_bytes", "fits",
    "parameters", "tokens_per_second", "mfu", "flops", "dtype", "sequence_length",
)  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """What one verb says.

    Attributes:
        verb: The command, without what the answers of a question share.
        program: What the header names.
        figures: Of ``FIGURES``, those that it states.
        error: Why there is no answer; '' where there is one.
    """

    verb: str
    program: str = ""
    figures: Mapping[str, Any] | None = None
    error: str = ""


@dataclass(frozen=True)
class Question:
    """One question, and each command that asks it: what the verb is called → its arguments."""

    name: str
    commands: Mapping[str, str]


def list_questions(name: str, *, captured: bool = True) -> Iterator[Question]:
    """Every question about a model: one device, several under a plan, what a search recommends.

    Args:
        captured: Whether to ask what captures the model's own modules, which takes seconds.
    """
    model = read_model(name)
    for mode in MODES:
        if (mode == "decode" and not _decodes(model)) or (mode == "train" and not _trains(model)):
            continue
        if captured:
            yield from _of_one_device(name, model, mode)
            if mode == "train" and model.has_sizes:
                yield _of_a_plan(name, mode, f"dp={NUM_DEVICES},mbs=1", "")
        if model.has_sizes:
            yield _of_one_framework(name, model, mode)
            framework = "--framework megatron" if mode == "train" else ""
            yield _of_a_plan(name, mode, _plan_of(model, mode), framework)
            yield _of_nothing_said(name, model, mode)


def _device_of(name: str) -> str:
    return NEWER_DEVICE if name.endswith("-nvfp4") else DEVICE


def _cluster_of(name: str) -> str:
    return NEWER_CLUSTER if name.endswith("-nvfp4") else CLUSTER


def _trains(model: NamedModel) -> bool:
    """Whether a training of it is described."""
    if not model.has_sizes:
        return True
    try:
        check_trainable(model.sizes)
    except ModelError:
        return False
    return True


def _decodes(model: NamedModel) -> bool:
    return model.has_sizes and model.sizes.is_causal


def _length(model: NamedModel) -> str:
    return f"--sequence-length {LENGTH}" if model.own_sequence_length or model.has_sizes else ""


def _of_one_device(name: str, model: NamedModel, mode: Mode) -> Iterator[Question]:
    """By default, and by the model's own modules; in words of one device, and of a cluster of one."""
    for how in ("", "--framework pytorch"):
        rest = f"{name} --mode {mode} --batch-size 1 {_length(model)} {how}"
        commands = {
            "predict --device": f"predict {rest} --device {_device_of(name)} {ROOF}",
            "predict --cluster :1": f"predict {rest} --cluster {_cluster_of(name)}:1 {ROOF}",
            "memory": f"memory {rest} --device {_device_of(name)}",
        }
        if model.has_sizes:
            commands |= _scaled(name, mode, 1, "dp=1", how)
        yield Question(f"{name}, {mode}, one device{' of PyTorch' if how else ''}", commands)


def _of_one_framework(name: str, model: NamedModel, mode: Mode) -> Question:
    """One device of a framework's kernels."""
    framework = "--framework megatron" if mode == "train" else "--framework sglang"
    rest = f"{name} --mode {mode} --batch-size 1 {_length(model)} {framework}"
    return Question(
        f"{name}, {mode}, one device {framework.removeprefix('--framework ')}",
        {
            "predict --device": f"predict {rest} --device {_device_of(name)} {ROOF}",
            "predict --cluster :1": f"predict {rest} --cluster {_cluster_of(name)}:1 {ROOF}",
            "memory": f"memory {rest} --device {_device_of(name)}",
            **_scaled(name, mode, 1, "dp=1", framework),
        },
    )


def _of_a_plan(name: str, mode: Mode, plan: str, framework: str) -> Question:
    """Several devices under one plan: as a cluster, as devices, without times, in a sweep."""
    length = f"--sequence-length {LENGTH}"
    rest = f"{name} --mode {mode} --batch-size {NUM_DEVICES} {length} --plan {plan} {framework}"
    devices = f"--device {_device_of(name)} --devices {NUM_DEVICES}"
    return Question(
        f"{name}, {mode}, {plan} on {NUM_DEVICES}",
        {
            "predict --cluster": f"predict {rest} --cluster {_cluster_of(name)}:{NUM_DEVICES} {ROOF}",
            "predict --devices": f"predict {rest} {devices} {ROOF}",
            "memory --devices": f"memory {rest} {devices}",
            **_scaled(name, mode, NUM_DEVICES, plan, framework),
        },
    )


def _of_nothing_said(name: str, model: NamedModel, mode: Mode) -> Question:
    """Precision and sequence where nothing is asked for; kernels of a framework, which nothing captures."""
    plan, framework = _plan_of(model, mode), "--framework megatron" if mode == "train" else ""
    rest = f"{name} --mode {mode} --batch-size {NUM_DEVICES} --plan {plan} {framework}"
    shared = f"{name} --cluster {_cluster_of(name)} --devices {NUM_DEVICES} --plan {plan} {framework} {ROOF}"
    sweep = f"--batch-size {NUM_DEVICES} --simulate"
    if mode != "train":
        sweep = f"--mode {mode} --batch-sizes {NUM_DEVICES}"
    return Question(
        f"{name}, {mode}, {plan} on {NUM_DEVICES}, the rest unsaid",
        {
            "predict": f"predict {rest} --cluster {_cluster_of(name)}:{NUM_DEVICES} {ROOF}",
            "memory": f"memory {rest} --device {_device_of(name)} --devices {NUM_DEVICES}",
            "scale": f"scale {shared} {sweep}",
        },
    )


def _plan_of(model: NamedModel, mode: Mode) -> str:
    """A plan that cuts the model, if it can be cut."""
    sizes = model.sizes
    cuts = sizes.num_kv_heads % 2 == 0 and sizes.num_attention_heads % 2 == 0
    plan = "tp=2" if cuts else "dp=8"
    return f"{plan},mbs=1" if mode == "train" else plan


def _scaled(name: str, mode: Mode, devices: int, plan: str, framework: str) -> dict[str, str]:
    """The same as one point of a sweep."""
    shared = (
        f"scale {name} --cluster {_cluster_of(name)} --devices {devices} --plan {plan} {framework} {ROOF}"
    )
    if mode == "train":
        return {"scale": f"{shared} --batch-size {devices} --sequence-length {LENGTH} --simulate"}
    return {"scale": f"{shared} --mode {mode} --batch-sizes {devices} --contexts {LENGTH}"}


def ask(verb: str, command: str) -> Answer:
    """What a command says, its figures under the names that all share."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run([*shlex.split(command), "--json", "-"])
    if code:
        return Answer(verb, error=err.getvalue().strip().splitlines()[-1])
    data = json.loads(out.getvalue())
    return Answer(verb, _program(data), _figures(data))


def _program(data: Mapping[str, Any]) -> str:
    """What the header names: of a sweep that of its one point."""
    (found,) = data["programs"] if "programs" in data else (data["program"],)
    assert isinstance(found["what"], str)
    return found["what"]


def _figures(data: Mapping[str, Any]) -> dict[str, Any]:
    if "curves" in data:
        return _known({**data["curves"][0]["points"][0], "sequence_length": data["sequence_length"]})
    if "points" in data:
        return _of_serving(data)
    memory = data if "peak_memory_bytes" in data else data.get("memory") or {}
    needed = {key: memory.get(key) for key in ("device_bytes", "needed_memory_bytes") if key in memory}
    reserved = data.get("reserved")
    if reserved:
        needed = {"reserved": reserved["total_bytes"]}
    return _known(
        {
            **data,
            "needed_bytes": next(iter(needed.values()), None),
            "peak_bytes": memory.get("peak_memory_bytes"),
            "parameters": data["parameter_count"],
        }
    )


def _of_serving(data: Mapping[str, Any]) -> dict[str, Any]:
    (point,) = data["points"]
    phase = point["time_to_first_token"] or point["time_per_output_token"]
    return _known(
        {
            "step_seconds": phase["seconds"],
            "step_seconds_low": phase["seconds_low"],
            "step_seconds_high": phase["seconds_high"],
            "tokens_per_second": phase["tokens_per_second"],
            "needed_bytes": point["memory_bytes"],
            "fits": point["fits"],
            "dtype": data["dtype"],
            "sequence_length": point["context_length"],
        }
    )


def _known(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in FIGURES if data.get(name) is not None}


def contradictions(question: Question) -> list[str]:
    """Where answers that name one program differ, and verbs that have none, in words."""
    answers = [ask(verb, command) for verb, command in question.commands.items()]
    given = [answer for answer in answers if answer.figures is not None]
    found = [f"{answer.verb}: {answer.error}" for answer in answers if answer.error]
    for program in dict.fromkeys(answer.program for answer in given):
        same = [answer for answer in given if answer.program == program]
        for figure in FIGURES:
            said = {a.verb: a.figures[figure] for a in same if a.figures and figure in a.figures}
            if len(set(said.values())) > 1:
                found.append(f"{figure} of {program}: {said}")
    return found
