"""Captured steps of these tests are kept in a folder of their own."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def kept_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFCAST_CACHE", str(tmp_path))
    return tmp_path / "captures" / "evidence"
