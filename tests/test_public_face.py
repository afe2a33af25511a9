from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import perfcast
from perfcast import errors

ROOT = Path(__file__).parents[1]


def typed_names() -> dict[str, str]:
    """Name → module of the imports that only type checkers see."""
    tree = ast.parse(Path(perfcast.__file__).read_text(encoding="utf-8"))
    (guard,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    imports = [node for node in guard.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_all_is_sorted_and_names_exactly_what_the_type_checker_sees_and_the_version():
    assert perfcast.__all__ == sorted(perfcast.__all__)
    assert set(perfcast.__all__) == typed_names().keys() | {"__version__"}


@pytest.mark.parametrize(("name", "module"), typed_names().items())
def test_a_public_name_is_the_one_of_its_module(name: str, module: str):
    assert getattr(perfcast, name) is getattr(importlib.import_module(module), name)


def test_public_names_are_imported_when_first_used():
    program = (
        "import sys, perfcast; before = 'perfcast.prediction' in sys.modules; perfcast.predict;"
        "print(before, 'perfcast.prediction' in sys.modules, 'torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True", "False"]


def test_an_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'forecast_everything'"):
        _ = perfcast.forecast_everything


def test_the_version_is_that_of_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert perfcast.__version__ == project["version"]


def drawn_tree() -> dict[str, str]:
    """Class → base, read off the drawing in the docstring of ``errors``."""
    parents: dict[str, str] = {}
    open_branches: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ([│├└─ ]*)([A-Z]\w+Error)\b", line)
        if not match:
            continue
        depth = len(match[1])
        while open_branches and open_branches[-1][0] >= depth:
            open_branches.pop()
        parents[match[2]] = open_branches[-1][1] if open_branches else "Exception"
        open_branches.append((depth, match[2]))
    return parents


def test_the_error_tree_is_as_drawn():
    classes = {n: c for n, c in vars(errors).items() if isinstance(c, type) and issubclass(c, Exception)}
    assert {name: c.__base__.__name__ for name, c in classes.items() if c.__base__} == drawn_tree()


def test_an_unknown_name_lists_close_ones_and_then_the_way_out():
    error = errors.UnknownNameError(
        "device", "H100", ["a100", "h100-sxm", "h100-pcie", "t4"], "See the catalog."
    )
    assert str(error).startswith("unknown device 'H100'. Did you mean ")
    assert set(error.close_names) >= {"h100-sxm", "h100-pcie"}
    assert "t4" not in error.close_names
    assert str(error).endswith("See the catalog.")


def test_close_names_are_found_in_any_case_and_written_in_their_own():
    assert errors.UnknownNameError("class", "gpt2LMheadmodle", ["GPT2LMHeadModel"]).close_names == [
        "GPT2LMHeadModel"
    ]


def test_an_unknown_name_that_resembles_nothing_suggests_nothing():
    assert str(errors.UnknownNameError("model", "zzz", ["gpt2"])) == "unknown model 'zzz'."
