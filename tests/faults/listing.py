"""All subjects by their names."""

from __future__ import annotations

from faults.kills import Subject


def subjects() -> dict[str, Subject]:
    """In the order in which they are put to it."""
    from faults.subjects import processes, stores

    return {subject.name: subject for subject in (*stores.SUBJECTS, *processes.SUBJECTS)}
