"""The view of searches in a browser: a job from its start to its end."""

from __future__ import annotations

from playwright.sync_api import expect

SMALL = "/search?model=gpt2&cluster=dgx-h100:4&global_batch_size=16&sequence_length=512&num_simulated=10"
LARGE = "/search?model=llama3-70b&cluster=dgx-h100:512&global_batch_size=1024"


def step_of(page) -> str:
    return page.locator(".answer .card:has-text('Step') strong").first.inner_text()


def test_a_search_runs_to_its_end_and_each_plan_can_be_looked_into_and_compared(visit):
    page = visit.open(SMALL)
    expect(page.locator(".answer h2.title")).to_contain_text("gpt2 on 4 × h100-sxm")
    expect(page.get_by_text("Pareto front").first).to_be_visible()
    found = step_of(page)
    rows = page.locator("tr.pickable")
    rows.nth(0).click()
    detail = page.locator(".detail")
    expect(detail.locator(".answer h2.title").last).to_contain_text("gpt2 on 4 × h100-sxm")
    assert detail.locator(".card:has-text('Step') strong").first.inner_text() == found
    page.keyboard.press("Escape")
    expect(detail).to_be_hidden()
    rows.nth(1).press("Enter")
    expect(detail.locator(".answer h2.title").first).to_contain_text("compared with")
    assert (
        detail.get_by_role("link", name="Open in Forecast")
        .get_attribute("href")
        .startswith("/forecast?model=gpt2")
    )


def test_a_search_is_cancelled(visit):
    page = visit.page
    page.goto(visit.server + LARGE)
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".problem")).to_contain_text("Cancelled")
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()


def test_the_button_asks_again_after_a_change(visit):
    page = visit.open(SMALL)
    page.get_by_label("Batch (sequences)", exact=True).fill("32")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".answer .lead").first).to_contain_text("32 × 512")
    page.wait_for_url("**global_batch_size=32**")
