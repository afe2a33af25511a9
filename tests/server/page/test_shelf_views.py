"""The views Catalog and Accuracy in a browser."""

from __future__ import annotations

import re

from playwright.sync_api import expect


def test_a_device_is_found_and_looked_into(visit):
    page = visit.open("/catalog")
    page.get_by_label("Find").fill("h100 sxm")
    expect(page.locator(".answer tbody tr").first).to_contain_text("h100-sxm")
    page.locator(".answer tbody tr").first.press("Enter")
    expect(page.locator(".answer h2.title")).to_have_text("NVIDIA H100 SXM5 80GB")
    expect(page).to_have_url(re.compile("name=h100-sxm"))
    expect(page.get_by_role("link", name="JSON")).to_have_attribute(
        "href", "/api/v1/catalog/devices/h100-sxm"
    )
    page.go_back()
    expect(page.locator(".answer h2.title")).to_have_text("Devices")


def test_an_address_says_all_of_it(visit):
    page = visit.open("/catalog?kind=models&find=llama")
    expect(page.locator(".answer tbody tr").first).to_contain_text("llama")
    assert page.get_by_label("Find").input_value() == "llama"


def test_accuracy_is_looked_through_by_device(visit):
    page = visit.open("/accuracy?find=vtrain")
    expect(page.locator(".answer")).to_contain_text("vTrain")
    expect(page.locator(".answer")).not_to_contain_text("llm-foundry")


def test_what_is_not_there_is_said(visit):
    page = visit.open("/catalog?find=no-such-device")
    expect(page.locator(".problem")).to_contain_text("no-such-device")


def test_a_phone_shows_them_without_scrolling_sideways(phone):
    for path in ("/catalog", "/accuracy"):
        page = phone.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
