"""The view of recordings in a browser."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from recorded_traces import two_kernels


@pytest.fixture
def recording(tmp_path):
    return two_kernels().write(tmp_path)


def test_a_recording_is_uploaded_explained_forecast_and_its_address_restores_it(visit, recording):
    page = visit.page
    page.goto(f"{visit.server}/traces")
    page.locator("input[type=file]").set_input_files(recording)
    expect(page.locator(".answer h2.title")).to_be_visible()
    expect(page.locator("#perfcast-command")).to_have_text("perfcast trace explain FILE")
    page.get_by_label("What if").fill("speed:gemm=0.2")
    page.get_by_role("button", name="Forecast it so").click()
    expect(page.locator("#perfcast-command")).to_contain_text("--what-if speed:gemm=0.2")
    title = page.locator(".answer h2.title").inner_text()
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    assert json.loads(download.value.path().read_text())["step_seconds"] > 0
    page.reload()
    expect(page.locator("#perfcast-command")).to_contain_text("--what-if speed:gemm=0.2")
    expect(page.locator(".answer h2.title")).to_have_text(title)


def test_what_is_no_recording_says_so(visit, tmp_path):
    path = tmp_path / "none.json"
    path.write_text("no recording")
    page = visit.page
    page.goto(f"{visit.server}/traces")
    page.locator("input[type=file]").set_input_files(path)
    expect(page.locator(".problem")).to_contain_text("JSON")


def test_an_upload_that_is_forgotten_is_said(visit):
    page = visit.page
    page.goto(f"{visit.server}/traces?id={'0' * 32}")
    expect(page.locator(".problem")).to_contain_text("no such upload")


def test_a_phone_shows_it_without_scrolling_sideways(phone, recording):
    page = phone.page
    page.goto(f"{phone.server}/traces")
    page.locator("input[type=file]").set_input_files(recording)
    expect(page.locator(".answer h2.title")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
