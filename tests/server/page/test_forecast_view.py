"""The forecast's view in a browser."""

from __future__ import annotations

from playwright.sync_api import expect

PLAN = "/forecast?model=llama3-8b&cluster=dgx-h100:8&plan=tp%3D2,zero%3D1&batch_size=16&sequence_length=2048"


def test_it_opens_with_an_answer_and_all_its_figures(visit):
    page = visit.open("/")
    expect(page.locator(".answer h2.title")).to_contain_text("llama3-8b on 8 × h100-sxm")
    expect(page.locator(".answer [data-figure].js-plotly-plot").first).to_be_visible()
    page.wait_for_url("**/forecast?model=llama3-8b&device=h100-sxm&devices=8**")


def test_an_address_restores_its_question(visit):
    page = visit.open(PLAN)
    expect(page.locator(".answer h2.title")).to_contain_text("llama3-8b on 8")
    assert page.get_by_label("Plan", exact=True).input_value() == "tp=2,zero=1"
    assert page.get_by_label("Batch (sequences)", exact=True).input_value() == "16"


def test_a_control_changes_answer_address_and_command_and_back_takes_them_back(visit):
    page = visit.open(PLAN)
    page.get_by_label("Batch (sequences)", exact=True).fill("32")
    expect(page.locator(".answer .lead").first).to_contain_text("32 × 2048")
    expect(page.locator("#perfcast-command")).to_contain_text("--batch-size 32")
    expect(page.locator("#perfcast-python")).to_contain_text("batch_size=32")
    page.wait_for_url("**batch_size=32**")
    page.go_back()
    expect(page.locator(".answer .lead").first).to_contain_text("16 × 2048")
    assert page.get_by_label("Batch (sequences)", exact=True).input_value() == "16"


def test_a_mistake_is_named_beside_the_controls_and_the_answer_stays(visit):
    page = visit.open(PLAN)
    page.get_by_label("Plan", exact=True).fill("tq=2")
    expect(page.locator(".problem")).to_contain_text("tp")
    expect(page.locator(".answer h2.title")).to_contain_text("llama3-8b on 8")
    page.get_by_label("Plan", exact=True).fill("tp=4")
    expect(page.locator(".problem")).to_be_hidden()
    expect(page.locator(".answer .lead").first).to_contain_text("tp=4")


def test_a_phone_shows_it_without_scrolling_sideways(phone):
    page = phone.open("/forecast")
    page.wait_for_selector(".answer .figure svg")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    expect(page.locator(".headline")).to_contain_text("Step")
