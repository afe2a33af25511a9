"""All golden answers by subject; each subject is a file of ``answers`` and a test file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from golden import curves, footprints, forecasts, plans, recommenders, recordings, searches, verbs
from golden.ask import Case

SUBJECTS: dict[str, Mapping[str, Case | forecasts.Forecast]] = {
    "forecasts": forecasts.CASES,
    "plans": plans.CASES,
    "footprints": footprints.CASES,
    "searches": searches.CASES,
    "curves": curves.CASES,
    "recordings": recordings.CASES,
    "recommenders": recommenders.CASES,
    "verbs": verbs.CASES,
}


def answers_of(subject: str, folder: Path) -> dict[str, Any]:
    """All answers of a subject, asked anew."""
    return {name: case.answer(folder) for name, case in SUBJECTS[subject].items()}
