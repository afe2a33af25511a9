"""What mkdocs asks while it builds: pages that are generated and cannot drift, formulas without scripts.

* ``<!-- options: predict -->`` becomes the help and the options of that command, read off the command.
* ``<!-- names: perfcast -->`` becomes the public names of that package, with their docstrings.
* ``<!-- catalog: devices -->`` (models, clusters, processors) becomes the catalog's table.
* A ```math block and $`x`$ in a line, as GitHub writes them, become MathML: no script, no font, no network.
* ``notebooks/NAME.ipynb`` becomes a page of its cells and of what they answered when they were run.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

_MARKER = re.compile(r"<!-- (options|catalog|names): ([\w -]+) -->")
#: What material loads from elsewhere where pages are opened as files; ours is beside the pages.
_FOREIGN_SHIM = re.compile(r'"?https://unpkg\.com/iframe-worker/shim"?')


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The files beside this one can be imported (mkdocs forgets a hook's folder once it is read)."""
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    return config


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Markers become what they name."""
    from catalog_tables import catalog_table
    from commands import describe_command

    writers = {"options": describe_command, "catalog": catalog_table, "names": describe_names}
    return _MARKER.sub(lambda match: writers[match[1]](match[2]), markdown)


def describe_names(package: str) -> str:
    """Every public name of a package: verbs with their keywords, all else with its docstring.

    Names are asked of the package itself: an import may have put a room of the same name in its place.
    """
    module = import_module(package)
    return "\n\n".join(_describe(f"{package}.{name}", module.__getattr__(name)) for name in _public(module))


def _public(module: ModuleType) -> list[str]:
    return [name for name in module.__all__ if not name.startswith("_")]


def _describe(path: str, value: object) -> str:
    if isinstance(value, ModuleType):
        return "\n\n".join(_describe(f"{path}.{name}", getattr(value, name)) for name in _public(value))
    if inspect.isfunction(value):
        return describe_function(path, value)
    return f"::: {path}"


def describe_function(path: str, function: Callable[..., object]) -> str:
    """A function: what it answers, and its keywords as a table, off its own documentation."""
    signature = inspect.signature(function)
    sections = re.split(r"^(Args|Returns|Raises):\n", inspect.getdoc(function) or "", flags=re.MULTILINE)
    said = dict(zip(sections[1::2], sections[2::2], strict=True))
    lines = [f"### {path}", "", _plain(sections[0].partition("\n>>>")[0]), ""]
    arguments = _entries(said.get("Args", ""))
    if arguments:
        lines += ["| Keyword | Type | |", "|---|---|---|"]
    for name, meaning in arguments.items():
        kind = str(signature.parameters[name].annotation).strip("'").removesuffix(" | None")
        lines.append(_line(name, kind, meaning))
    returns = said.get("Returns", "")
    return "\n".join([*lines, *(["", f"**Returns**: {_plain(returns)}"] if returns else [])])


def _line(name: str, kind: str, meaning: str) -> str:
    cells = (f"`{name}`", f"`{kind}`", _plain(meaning))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _entries(text: str) -> dict[str, str]:
    """Name → meaning of the lines of a section, with those that go on below."""
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", text, flags=re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in found}


def _plain(text: str) -> str:
    """A docstring's text, in which brackets are no links."""
    return " ".join(text.split()).replace("``", "`").replace("[", "\\[")


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Nothing is loaded from elsewhere."""
    depth = page.url.count("/")
    return _FOREIGN_SHIM.sub(f'"{"../" * depth}assets/iframe_worker.js"', output)


def on_page_content(content: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas become MathML."""
    content = re.sub(r'<div class="formula">(.*?)</div>', _block, content, flags=re.DOTALL)
    return re.sub(r"\$<code>(.*?)</code>\$", lambda match: _mathml(match[1], "inline"), content)


def _block(match: re.Match[str]) -> str:
    lines = [line for line in match[1].strip().split("\n\n") if line.strip()]
    return "".join(f'<div class="formula">{_mathml(line, "block")}</div>' for line in lines)


def _mathml(escaped: str, display: str) -> str:
    from latex2mathml.converter import convert

    return convert(_with_words(html.unescape(escaped)), display=display)


def _with_words(formula: str) -> str:
    """Names of several letters are words, not products of letters."""
    parts = re.split(r"(\\text\{[^}]*\})", formula)
    words = re.compile(r"(?<![\\A-Za-z])([A-Za-z]{2,})(?![A-Za-z])")
    return "".join(part if part.startswith("\\text") else words.sub(r"\\text{\1}", part) for part in parts)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Notebooks become pages."""
    from mkdocs.structure.files import File

    for notebook in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(notebook)
        text = notebook_page(json.loads(Path(str(notebook.abs_src_path)).read_text(encoding="utf-8")))
        files.append(File.generated(config, notebook.src_uri.replace(".ipynb", ".md"), content=text))
    return files


def notebook_page(notebook: dict[str, list[dict[str, object]]]) -> str:
    """The cells of an executed notebook, and what they answered."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])  # type: ignore[arg-type]
        if cell["cell_type"] == "markdown":
            parts.append(source)
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(f"```python\n{source}\n```")
            parts += [_shown(output) for output in cell["outputs"]]  # type: ignore[attr-defined]
    return "\n\n".join(part for part in parts if part)


def _shown(output: dict[str, object]) -> str:
    data = output.get("data", {"text/plain": output.get("text", "")})
    assert isinstance(data, dict)
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        return '<div class="answer">' + "".join(line.strip() + " " for line in lines) + "</div>"
    if "image/svg+xml" in data:
        return "".join(data["image/svg+xml"])
    text = "".join(data.get("text/plain", ""))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""
