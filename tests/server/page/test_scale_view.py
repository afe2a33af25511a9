"""The view of scaling in a browser."""

from __future__ import annotations

from playwright.sync_api import expect


def test_it_opens_with_a_curve_over_devices(visit):
    page = visit.open("/scale")
    expect(page.locator(".answer h2.title")).to_contain_text("llama3-8b")
    expect(page.locator(".answer")).to_contain_text("Tokens per second")


def test_limits_are_another_question_of_the_view_whose_controls_are_its_own(visit):
    page = visit.open("/scale?limits=1")
    expect(page.locator(".answer")).to_contain_text("training compute")
    expect(page.get_by_label("Assume", exact=True)).to_be_visible()
    expect(page.get_by_label("Cluster", exact=True)).to_be_hidden()
