"""The view of serving in a browser."""

from __future__ import annotations

from playwright.sync_api import expect


def test_it_opens_with_a_forecast_under_load(visit):
    page = visit.open("/serving")
    expect(page.locator(".answer h2.title")).to_contain_text("llama3-8b served by")
    expect(page.locator(".answer .card").first).to_contain_text("Time to first token")


def test_a_sweep_takes_the_place_of_what_it_is_over(visit):
    page = visit.open(
        "/serving?model=llama3-8b&device=h100-sxm&plan=tp%3D1&input_length=512&output_length=128"
        "&concurrency=4&method=closed-form"
    )
    page.get_by_role("combobox", name="Sweep over").click()
    page.get_by_role("option", name="clients: 1 to 256").click()
    expect(page.locator("#perfcast-command")).to_contain_text("--sweep concurrency=1,4,16,64,256")
    expect(page.get_by_label("Clients at once", exact=True)).to_be_hidden()
    expect(page.locator(".answer")).to_contain_text("Pareto front")
    expect(page.get_by_role("link", name="Perfetto timeline")).to_have_count(0)
