"""The view of memory in a browser."""

from __future__ import annotations

from playwright.sync_api import expect

PLAN = "/memory?model=llama3-8b&device=h100-sxm&devices=8&plan=tp%3D2&batch_size=16&sequence_length=2048"


def test_a_switch_says_what_would_make_it_fit(visit):
    page = visit.open(PLAN)
    expect(page.locator(".answer h2.title")).to_contain_text("llama3-8b")
    page.get_by_role("switch", name="What would make it fit").press("Space")
    expect(page.locator("#perfcast-command")).to_contain_text("--fit")
    page.wait_for_url("**fit=1**")
