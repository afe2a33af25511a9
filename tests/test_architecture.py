"""The house: which room may import which, and what every file keeps to."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import perfcast

ROOT = Path(perfcast.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MAX_LINES = 420

# A room may import itself and the floors below; rooms on one floor do not know each other.
FLOORS: dict[str, float] = {
    "units": 0, "errors": 0, "ranges": 0.05,  # the slab
    "files": 0.1, "printer": 0.2, "version": 0.2, "torch_internals": 0.2, "figures": 0.2,
    "core": 0.5,
    "frameworks": 0.7,
    "workload": 1, "cost": 1, "memory_use": 1, "catalogs": 1,
    "simulate": 2,
    "prediction": 2.5,
    "traces": 3, "measure": 3,
    "searches": 4, "replays": 4,
    "published": 5,
    "evidence": 6,
    "report": 7,
    "verbs": 7.3,
    "": 7.5,  # the package's own name, through which the front door is reached
    "server": 7.8,
    "cli": 8,
    "__main__": 9,
}  # fmt: skip


def module_name(path: Path) -> str:
    parts = ("perfcast", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def room_of(module: str) -> str:
    return [*module.split("."), ""][1]


@cache
def imports_of(module: str) -> frozenset[str]:
    """Everything that a file imports anywhere in it; modules that it names in strings count too."""
    path, found = MODULES[module], set[str]()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(
                    [*package.split(".")[: len(package.split(".")) - node.level + 1], base]
                ).strip(".")
            found |= {
                f"{base}.{alias.name}" if f"{base}.{alias.name}" in MODULES else base for alias in node.names
            }
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            found |= {node.value} & MODULES.keys()
    return frozenset(found - {module})


def of_package(modules: frozenset[str]) -> list[str]:
    return sorted(m for m in modules if m.partition(".")[0] == "perfcast")


def test_every_room_stands_on_a_floor():
    assert {room_of(module) for module in MODULES} <= FLOORS.keys()


@pytest.mark.parametrize("module", MODULES)
def test_a_room_imports_itself_and_the_floors_below_alone(module: str):
    room = room_of(module)
    forbidden = [
        m for m in of_package(imports_of(module)) if room_of(m) != room and FLOORS[room_of(m)] >= FLOORS[room]
    ]
    assert not forbidden, f"{module} may not import {', '.join(forbidden)}"


#: Verbs that show or make evidence, and what they render.
READS_EVIDENCE = ("evidence", "report", "cli")


@pytest.mark.parametrize("module", [m for m in MODULES if room_of(m) not in READS_EVIDENCE])
def test_nothing_that_answers_a_user_reads_evidence(module: str):
    assert not [m for m in of_package(imports_of(module)) if room_of(m) == "evidence"]


def test_imports_form_no_cycle():
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"import cycle: {' → '.join((*path[path.index(module) :], module))}"
        if module not in done:
            for imported in of_package(imports_of(module)):
                visit(imported, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
    assert done == MODULES.keys()


@pytest.mark.parametrize(
    "module", [m for m in MODULES if room_of(m) in ("core", "errors", "units", "ranges")]
)
def test_the_ground_needs_nothing_but_the_standard_library_and_arrays(module: str):
    outside = {m.partition(".")[0] for m in imports_of(module)} - set(sys.stdlib_module_names)
    assert outside <= {"perfcast", "numpy"}


#: What reads code as data. marshal makes keys of a table in memory there, and reads no file.
READS_CODE = {"pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
MAKES_KEYS = "perfcast.traces.kineto.columns"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_pickled(module: str):
    allowed = {"marshal"} if module == MAKES_KEYS else set()
    assert not {m.partition(".")[0] for m in imports_of(module)} & READS_CODE - allowed


@pytest.mark.parametrize("module", MODULES)
def test_no_file_imports_the_private_tools_of_torch_distributed(module: str):
    assert not [m for m in imports_of(module) if m.startswith("torch.distributed._tools")]


@pytest.mark.parametrize("module", [m for m in MODULES if room_of(m) != "torch_internals"])
def test_private_names_of_torch_stand_in_torch_internals_alone(module: str):
    if module in WRITES_PROGRAMS:
        return
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    assert not [name for node in ast.walk(tree) for name in torch_names(node) if is_private_of_torch(name)]


#: Files that users run on their own, without perfcast.
WRITES_PROGRAMS = ("perfcast.searches.handover.fsdp2_program",)


def torch_names(node: ast.AST) -> list[str]:
    """Dotted names in an import or an expression."""
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(module=str(base)):
            return [f"{base}.{alias.name}" for alias in node.names]
        case ast.Attribute():
            return [ast.unparse(node)]
    return []


def is_private_of_torch(name: str) -> bool:
    """``torch._C``, ``distributed.x._y``; not operators, whose namespaces may begin with an underscore."""
    root, *parts = name.split(".")
    if root not in ("torch", "distributed", "distributed_c10d", "functional") or parts[:1] == ["ops"]:
        return False
    return any(part.startswith("_") and not part.startswith(("__", "_foreach_")) for part in parts)


@pytest.mark.parametrize("module", sorted(MODULES.keys() - {"perfcast.units"}))
def test_powers_of_ten_and_two_that_are_units_stand_in_units_alone(module: str):
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    found = [f"line {node.lineno}: {ast.unparse(node)}" for node in ast.walk(tree) if is_power_literal(node)]
    assert not found


def is_power_literal(node: ast.AST) -> bool:
    """1e9, 1e12, 1e15, 2**20, 1 << 30 and the like; whole counts such as 10**9 are limits, not units."""
    match node:
        case ast.Constant(value=float(value)):
            return value in (1e9, 1e12, 1e15, 2.0**20, 2.0**30, 2.0**40)
        case ast.Constant(value=int(value)):
            return value in (2**20, 2**30, 2**40)
        case ast.BinOp(left=ast.Constant(value=2), op=ast.Pow(), right=ast.Constant(value=power)):
            return power in (10, 20, 30, 40)
        case ast.BinOp(left=ast.Constant(value=1), op=ast.LShift(), right=ast.Constant(value=power)):
            return power in (10, 20, 30, 40)
    return False


@pytest.mark.parametrize("module", MODULES)
def test_a_file_is_short_enough_to_read_at_once(module: str):
    lines = len(MODULES[module].read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{MODULES[module].name} has {lines} lines; split it by concern"


def named_paths(text: str) -> list[str]:
    """Paths below the package that a document names: 'room/…', without a name inside a file or a pattern."""
    rooms = "|".join(sorted({room_of(module) for module in MODULES} - {"", "__main__"}))
    return re.findall(rf"(?<![\w./-])((?:{rooms})/[\w/]+)(?![\w*/])", text)


@pytest.mark.parametrize(
    "document",
    [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/published.md",
        "docs/theory/*.md",
        "docs/extend.md",
    ],
)
def test_what_a_document_names_is_there(document: str):
    files = sorted(Path(__file__).parents[1].glob(document))
    paths = [path for file in files for path in named_paths(file.read_text(encoding="utf-8"))]
    missing = [p for p in paths if not (ROOT / p).is_dir() and not (ROOT / p).with_suffix(".py").is_file()]
    assert paths
    assert not missing


def test_importing_the_package_and_the_command_line_loads_nothing_heavy():
    heavy = ("torch", "transformers", "plotly", "scipy", "numpy", "rich")
    program = f"import sys, perfcast, perfcast.cli.main; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_two_files_of_tests_have_one_name():
    """Pytest imports them by that."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert not {name for name in names if names.count(name) > 1}
