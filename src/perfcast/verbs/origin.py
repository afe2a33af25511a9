"""Where an answer comes from: the question, what is shipped, what was measured here, the files it names."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from perfcast.errors import QuestionError
from perfcast.files.digests import digest_of
from perfcast.files.places import named_places
from perfcast.prediction.installed import (
    catalog_digest,
    library_versions,
    measurements_digest,
    weights_digest,
)
from perfcast.report.origin import InputData, OriginData
from perfcast.verbs.question import Question, files_of, place_texts, plain_of
from perfcast.verbs.spelled import command_line

#: Files of a folder that a question names which count as read; weights of models, which are not, do not.
_READ = (
    ".json", ".toml", ".py", ".csv", ".gz", ".xz", ".tar", ".parquet", ".npz", ".et", ".jsonl", ".log",
    ".txt",
)  # fmt: skip
_MOST_FILES = 1000


def origin_of(
    verb: str, question: Question | None, command: str = "", *, is_shared: bool = False
) -> OriginData:
    """What an answer came from, as it is now.

    Args:
        verb: That answered.
        question: None: it cannot be asked again.
        command: That was run, where the question names none.
        is_shared: Whether others read it: a question with files of this machine is then left out.
    """
    plain, spelled = (None, "") if question is None else _said(question)
    files = {} if question is None else files_of(question)
    inputs = tuple(_inputs(question)) if question is not None else ()
    if is_shared and files:
        plain, spelled = None, ""
        inputs = tuple(
            InputData(path=Path(one.path).name, num_bytes=one.num_bytes, sha256=one.sha256) for one in inputs
        )
    return OriginData(
        verb=verb,
        question=plain,
        command=spelled or command,
        catalog_sha256=catalog_digest(),
        weights_sha256=weights_digest(),
        measurements_sha256=measurements_digest(),
        libraries=dict(library_versions()),
        inputs=inputs,
    )


def origin_of_list(kind: str, name: str | None) -> OriginData:
    """Of a list of the catalog, or of one thing in it."""
    return origin_of(f"catalog {kind}", None, list_command(kind, name))


def list_command(kind: str, name: str | None) -> str:
    """The command line that lists it."""
    return shlex.join(["perfcast", "catalog", kind, *([] if name is None else [name])])


def origin_line() -> str:
    """The same for people, without question and files."""
    libraries = ", ".join(f"{name} {version}" for name, version in library_versions().items())
    own = measurements_digest()
    measured = f", measurements {own[:12]}" if own else ""
    return f"catalog {catalog_digest()[:12]}, weights {weights_digest()[:12]}{measured}; {libraries}"


def _said(question: Question) -> tuple[dict[str, object] | None, str]:
    try:
        return plain_of(question), command_line(question)
    except QuestionError:  # it holds objects, which have no name
        return None, ""


def _inputs(question: Question) -> Iterator[InputData]:
    """Files that a question names to be read, and those of folders that it names."""
    seen: set[Path] = set()
    for text in place_texts(question):
        for place in named_places(text):
            for path in _files_at(Path(place)):
                if path not in seen:
                    seen.add(path)
                    yield InputData(path=str(path), num_bytes=path.stat().st_size, sha256=digest_of(path))


def _files_at(place: Path) -> list[Path]:
    """Itself, or what may be read of a folder."""
    try:
        if stat.S_ISREG(place.stat().st_mode):
            return [place]
        found = [path for path in sorted(place.iterdir()) if path.suffix in _READ and path.is_file()]
    except OSError:
        return []
    return found[:_MOST_FILES]
