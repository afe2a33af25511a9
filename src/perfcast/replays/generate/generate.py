"""A replay written as a program of its own, which needs PyTorch alone: readable, without weights or data.

benchmark.py     arguments, measurement, ranks          shipped as it is (``replays/generate/standalone``)
tensors.py       fills, windows, pauses                 shipped as it is
collectives.py     collectives, where there are some      shipped as it is
program.py       given tensors, which step when         written
steps*.py        one line a call                        written
manifest.json    where it comes from, what was left out
README.md
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from perfcast.errors import InputError
from perfcast.files.writing import make_folder, write_text_atomically
from perfcast.replays.communication.groups import GroupKey, collectives_in, groups_of_program
from perfcast.replays.generate.given import GivenTensors
from perfcast.replays.generate.names import Names
from perfcast.replays.generate.plan import ProgramPlan, plan_program
from perfcast.replays.generate.text import StepWriter, main_device
from perfcast.replays.generate.tokens import hashed, hashed_path, label_text, number_token
from perfcast.replays.program.program import CallKind, ReplayProgram, Skipped
from perfcast.traces.collectives.sizes import canonical_name
from perfcast.traces.events import NONE
from perfcast.version import perfcast_version

#: A file of steps ends after the part with which it reaches so many lines.
_FILE_LINES = 1200
#: Lines are broken beyond these widths.
_WIDTH, _IMPORT_WIDTH = 100, 88
#: What a report says of a replay that tells where the recording is from.
_TELLING = frozenset({"source", "selection", "left_out", "notes"})
#: Beginnings of names that every recording has.
_KNOWN_NAMES = ("aten::", "prims::", "c10d::", "_c10d_functional::", "record_param_comms")
#: The package that everything but the command itself is in.
_PACKAGE = "replayed"


@dataclass(frozen=True)
class Generated:
    """What was written: the folder, its files, the manifest's content, and which line is which call.

    ``lines`` has, by file of steps, the rank whose program it is and each line's call (``NONE``: none).
    """

    folder: Path
    files: tuple[str, ...]
    manifest: Mapping[str, Any]
    lines: Mapping[str, tuple[int, tuple[int, ...]]]

    def call_at(self, file: str, line: int) -> tuple[int, int] | None:
        """The rank and the call that a line of the steps, counted from 1, makes; ``None``: no call's."""
        rank, calls = self.lines.get(file, (0, ()))
        call = calls[line - 1] if 0 < line <= len(calls) else NONE
        return None if call == NONE else (rank, call)


def generate(
    programs: Sequence[ReplayProgram],
    folder: str | Path,
    *,
    is_anonymised: bool = False,
    salt: str = "",
    fidelity: Mapping[str, Any] | None = None,
    played: Mapping[str, Any] | None = None,
) -> Generated:
    """Write programs, one a rank, as a stand-alone benchmark.

    Args:
        programs: In order of ranks; one serves all ranks of its world.
        folder: Made if need be; files of another benchmark in it are replaced, others are refused.
        is_anonymised: Labels of modules and names of sources are hashed, with ``salt``.
        fidelity: Figures of a replay that was measured, for the manifest.
        played: What came of playing the benchmark once, for the manifest.

    Raises:
        InputError: No program, a folder with other files, or operators that PyTorch alone does not have.
        TraceError: Names, strings or numbers that cannot be written into a program.
    """
    if not programs:
        raise InputError("no program to generate a benchmark from")
    place = Path(folder)
    _check_folder(place)
    for program in programs:
        _check_operators(program)
    label = (lambda path: hashed_path(path, salt)) if is_anonymised else str
    groups = tuple(sorted({key for program in programs for key in groups_of_program(program)}))
    texts: dict[str, str] = {}
    lines: dict[str, tuple[int, tuple[int, ...]]] = {}
    written: list[tuple[str, ...]] = []
    modules: list[str] = []
    for rank, program in enumerate(programs):
        files = _Files(program, groups, label, ".." if len(programs) > 1 else ".")
        texts_of_rank = tuple(files.texts.values())
        if texts_of_rank in written:
            modules.append(modules[written.index(texts_of_rank)])
            continue
        home = f"{_PACKAGE}/rank_{rank}" if len(programs) > 1 else _PACKAGE
        written.append(texts_of_rank)
        modules.append(f"{home}/program".replace("/", "."))
        texts |= {f"{home}/{name}.py": text for name, text in files.texts.items()}
        lines |= {f"{home}/{name}.py": (rank, calls) for name, calls in files.calls.items()}
        texts[f"{home}/__init__.py"] = f'"""What rank {number_token(program.rank)} plays."""\n'
    texts |= _shipped_texts(any(_has_collectives(program) for program in programs))
    manifest = _manifest(programs, modules, is_anonymised=is_anonymised, salt=salt, fidelity=fidelity)
    manifest |= {} if played is None else {"played": dict(played)}
    texts["manifest.json"] = json.dumps(manifest, indent=1) + "\n"
    texts["README.md"] = _readme(manifest)
    for name, text in texts.items():
        make_folder((place / name).parent)
        write_text_atomically(place / name, text)
    return Generated(place, tuple(sorted(texts)), manifest, lines)


class _Files:
    """The files of one rank's program: name without ending → text, and the call of each line of steps."""

    def __init__(
        self,
        program: ReplayProgram,
        groups: Sequence[GroupKey],
        label: Callable[[str], str],
        shared: str,
    ) -> None:
        plan = plan_program(program)
        self._groups = groups
        self._shared = f"{shared}tensors"
        names = Names(program, plan)
        given = GivenTensors(program, plan, names)
        self.texts: dict[str, str] = {}
        self.calls: dict[str, tuple[int, ...]] = {}
        functions = self._write_steps(program, plan, names, label)
        self.texts["program"] = _program_text(groups, plan, given, functions, self._shared)

    def _write_steps(
        self, program: ReplayProgram, plan: ProgramPlan, names: Names, label: Callable[[str], str]
    ) -> dict[str, str]:
        """Writes the files of steps; the file of each function."""
        files: dict[str, str] = {}
        blocks: list[list[str]] = []
        functions: list[str] = []
        writer = StepWriter(program, self._groups, names, label)

        def finish() -> None:
            nonlocal writer
            name = f"steps_{len(self.texts)}"
            files.update(dict.fromkeys(functions, name))
            self.texts[name] = _steps_text(blocks, writer.operators, self._shared)
            self.calls[name] = _calls_of_lines(self.texts[name], blocks, writer.calls)
            writer = StepWriter(program, self._groups, names, label)
            blocks.clear()
            functions.clear()

        for step, planned in enumerate(plan.steps):
            for place, part in enumerate(planned.parts):
                functions.append(_function(step, place))
                blocks.append(writer.part(functions[-1], part, plan.gaps))
                if sum(map(len, blocks)) >= _FILE_LINES:
                    finish()
        if blocks:
            finish()
        return files


def _function(step: int, part: int) -> str:
    return f"step_{step}_part_{part}"


def _steps_text(blocks: Sequence[Sequence[str]], operators: Mapping[str, str], shared: str) -> str:
    body = "\n\n\n".join("\n".join(block) for block in blocks)
    used = [name for name in ("flat", "wait", "window") if f" {name}(" in body]
    aliases = [f"{name} = {path}" for name, path in sorted(operators.items())]
    imports = ["import torch", ""] if aliases or "torch." in body else []
    head = [
        '"""Calls in the order of the recording; ``t`` holds the tensors that live longer than one part."""',
        "",
        *imports,
        *_import_lines(shared, ["Tensors", *used]),
        "",
        *aliases,
    ]
    return "\n".join(head).rstrip() + "\n\n\n" + body + "\n"


def _calls_of_lines(
    text: str, blocks: Sequence[Sequence[str]], calls: Sequence[Sequence[int]]
) -> tuple[int, ...]:
    """The call of each line of a file, whose end the blocks are, two empty lines between them."""
    found: list[int] = []
    for block, own in zip(blocks, calls, strict=True):
        found += [*([NONE, NONE] if found else []), *own, *[NONE] * (len(block) - len(own))]
    return (*[NONE] * (text.count("\n") - len(found)), *found)


def _program_text(
    groups: Sequence[GroupKey],
    plan: ProgramPlan,
    given: GivenTensors,
    functions: Mapping[str, str],
    shared: str,
) -> str:
    """Given tensors, the steps as rows of parts, their order, and the groups of ranks."""
    entries = [f'    "{line.name}": lambda t: {line.expression},' for line in given.lines]
    steps: list[str] = []
    for step, planned in enumerate(plan.steps):
        steps.append("    (")
        for place, (needs, done) in enumerate(given.by_part(planned)):
            steps += _part_lines(_function(step, place), needs, done)
        steps.append("    ),")
    order = ", ".join(number_token(step) for step in plan.order)
    listed = [f'    "group_{place}": {_ranks(key.ranks)},' for place, key in enumerate(groups)]
    used = ["StepPart", *(["window"] if any("window(" in entry for entry in entries) else [])]
    sources: dict[str, list[str]] = {}
    for function, file in functions.items():
        sources.setdefault(file, []).append(function)
    sources = {f".{file}": found for file, found in sources.items()}
    sources = {shared: used, **sources} if shared.startswith("..") else {**sources, shared: used}
    imports = [line for file, found in sources.items() for line in _import_lines(file, found)]
    lines = [
        '"""The tensors that are there before the steps, and which step is played when."""',
        "",
        *(["import torch", ""] if any("torch." in entry for entry in entries) else []),
        *imports,
        "",
        "# Each tensor that no call makes: what it holds is made up.",
        *(["GIVEN = {", *entries, "}"] if entries else ["GIVEN = {}"]),
        "",
        "# The different steps: their parts, the given tensors that each needs first, and is done with.",
        "STEPS = (",
        *steps,
        ")",
        "",
        "# Which of them is played when.",
        f"ORDER = ({order}{',' if len(plan.order) == 1 else ''})",
        "",
        "# Ranks that exchange something with each other: the groups of all ranks.",
        *(["GROUPS = {", *listed, "}"] if listed else ["GROUPS = {}"]),
    ]
    return "\n".join(lines) + "\n"


def _import_lines(module: str, names: Sequence[str]) -> list[str]:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= _IMPORT_WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]


def _part_lines(function: str, needs: Sequence[str], done: Sequence[str]) -> list[str]:
    text = f'        StepPart({function}, "{" ".join(needs)}", "{" ".join(done)}"),'
    if len(text) <= _WIDTH:
        return [text]
    return [
        "        StepPart(",
        f"            {function},",
        *_wrapped("needs", needs),
        *_wrapped("done", done),
        "        ),",
    ]


def _wrapped(key: str, names: Sequence[str]) -> list[str]:
    """Names with spaces between them, as a string over several lines."""
    rows: list[str] = [""]
    for name in names:
        if len(rows[-1]) + len(name) > _WIDTH - 30:
            rows[-1] += " "
            rows.append(name)
        else:
            rows[-1] = f"{rows[-1]} {name}".lstrip()
    if len(rows) == 1:
        return [f'            {key}="{rows[0]}",']
    return [f"            {key}=(", *(f'                "{row}"' for row in rows), "            ),"]


def _ranks(ranks: Sequence[int]) -> str:
    inner = ", ".join(number_token(rank) for rank in ranks)
    return f"({inner}{',' if len(ranks) == 1 else ''})"


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder}' is a file; name a folder for the benchmark")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "manifest.json").is_file():
        raise InputError(f"'{folder}' holds other files; name an empty folder for the benchmark")


def _check_operators(program: ReplayProgram) -> None:
    """A program that needs PyTorch alone calls nothing that others register."""
    spaces = {c.operator.partition("::")[0] for c in program.calls if c.kind is CallKind.OPERATOR}
    foreign = sorted(spaces - {"aten", "prims", "c10d", "_c10d_functional", "quantized"})
    if foreign:
        raise InputError(
            f"operators of '{label_text(foreign[0])}' are not PyTorch's own, so that a stand-alone benchmark "
            "cannot call them; leave them out with --skip"
        )


def _has_collectives(program: ReplayProgram) -> bool:
    kinds = (CallKind.COLLECTIVE, CallKind.WAIT)
    return any(
        call.kind in kinds and call.emulated_seconds != call.emulated_seconds for call in program.calls
    )


def _shipped_texts(has_collectives: bool) -> dict[str, str]:
    """The files that are copied as they are, by their places."""
    places = {"benchmark.py": "benchmark.py", "tensors.py": f"{_PACKAGE}/tensors.py"}
    if has_collectives:
        places["collectives.py"] = f"{_PACKAGE}/collectives.py"
    texts = {f"{_PACKAGE}/__init__.py": '"""What is played."""\n'}
    shipped = resources.files("perfcast.replays.generate.standalone")
    return texts | {
        place: shipped.joinpath(name).read_text(encoding="utf-8") for name, place in places.items()
    }


def _manifest(
    programs: Sequence[ReplayProgram],
    modules: Sequence[str],
    *,
    is_anonymised: bool,
    salt: str,
    fidelity: Mapping[str, Any] | None,
) -> dict[str, Any]:
    def shown(text: str) -> str:
        return hashed(text, salt) if is_anonymised else text

    first = programs[0]
    return {
        "format": "perfcast generated benchmark 1",
        "perfcast": perfcast_version(),
        "sources": [
            {"rank": program.rank, "name": shown(program.source), "sha256": program.source_hash}
            for program in programs
        ],
        "selection": {} if is_anonymised else dict(first.selection),
        "is_anonymised": is_anonymised,
        "programs": list(modules),
        "device": main_device(first),
        "rank": first.rank,
        "world_size": first.world_size,
        "has_collectives": any(_has_collectives(program) for program in programs),
        "collectives": sorted(
            {canonical_name(one.name) for program in programs for _, _, one in collectives_in(program)}
        ),
        "num_steps": first.num_steps,
        "num_calls": len(first.calls),
        "num_operators": sum(call.kind is not CallKind.IDLE for call in first.calls),
        "peak_bytes": first.least_bytes,
        "given_bytes": sum(buffer.num_bytes for buffer in first.buffers if buffer.is_given),
        "skipped": _skipped(first, shown),
        "rebuilt": list(first.rebuilt),
        "fillings": _fillings(first),
        "fidelity": _shown_fidelity(fidelity, is_anonymised=is_anonymised),
    }


def _shown_fidelity(fidelity: Mapping[str, Any] | None, *, is_anonymised: bool) -> dict[str, Any] | None:
    """Figures of a measured replay; of an anonymised benchmark without what names its source."""
    if fidelity is None:
        return None
    return {key: value for key, value in fidelity.items() if not is_anonymised or key not in _TELLING}


def _skipped(program: ReplayProgram, shown: Callable[[str], str]) -> list[dict[str, Any]]:
    """What was left out, by operator and reason; names that are not PyTorch's as they may be shown."""

    def key(skipped: Skipped) -> tuple[str, str, bool]:
        if skipped.operator.startswith(_KNOWN_NAMES):
            return skipped.operator, skipped.reason, skipped.is_harmless
        return shown(skipped.operator), shown(skipped.reason), skipped.is_harmless

    counts = Counter(map(key, program.skipped))
    return [
        {"operator": operator, "reason": reason, "is_harmless": is_harmless, "count": count}
        for (operator, reason, is_harmless), count in counts.items()
    ]


def _fillings(program: ReplayProgram) -> list[dict[str, Any]]:
    """How many given tensors are filled in which way, and why."""
    found = (slot.filling for slot in program.slots if slot.filling is not None)
    counts = Counter((filling.kind.value, filling.reason) for filling in found)
    return [{"kind": kind, "reason": reason, "count": count} for (kind, reason), count in counts.items()]


def _readme(manifest: Mapping[str, Any]) -> str:
    ranks = f"\n    torchrun --nproc-per-node {manifest['world_size']} benchmark.py\n"
    return f"""# A recorded step as a benchmark

Plays {manifest["num_calls"]} recorded calls ({manifest["num_steps"]} steps) again and prints how long they \
took, as JSON. It needs PyTorch alone; tensors hold made-up numbers.

    python benchmark.py --repeat 30 --warm-up 3
{ranks if manifest["has_collectives"] else ""}
`--host-gaps` keeps the host busy where the recorded program did other things; `--lean` makes given tensors
when they are first needed and frees them after their last use (live peak \
{manifest["peak_bytes"]:,} bytes); `--device cuda` plays on an accelerator.

`replayed/program.py` has the given tensors and the order of the steps, `replayed/steps_*.py` the calls,
`manifest.json` where all this comes from and what was left out.
"""
