"""Captured steps of these tests are kept in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfcast.evidence.validate.vision import kept


@pytest.fixture(autouse=True)
def kept_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(kept, "_folder", lambda: tmp_path / "kept")
    return tmp_path / "kept"
