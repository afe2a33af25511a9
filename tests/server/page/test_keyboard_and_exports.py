"""The page without a mouse, and what it gives away: links, copies, files."""

from __future__ import annotations

import json

from playwright.sync_api import expect

PLAN = "/forecast?model=llama3-8b&cluster=dgx-h100:8&plan=tp%3D2,zero%3D1&batch_size=16&sequence_length=2048"
#: Of the element that has the focus: what a screen reader calls it.
_NAME = """() => {
  const e = document.activeElement;
  const labels = [...(e.labels ?? [])].map(label => label.textContent);
  return (e.getAttribute("aria-label") || labels.join(" ") || e.textContent || "").trim();
}"""
#: Whether the focus can be seen: an outline of its own, or the frame of its field.
_IS_SEEN = """() => {
  const e = document.activeElement;
  const has_outline = getComputedStyle(e).outlineStyle !== "none";
  return has_outline || !!e.closest(".q-field--focused, .q-slider, .q-toggle, .q-btn, .q-item");
}"""


def tab_to(page, name: str, most: int = 40) -> None:
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate(_NAME) == name:
            return
    raise AssertionError(f"no {name!r} within {most} tabs")


def test_everything_can_be_reached_and_named_without_a_mouse(visit):
    page = visit.open(PLAN)
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(_NAME))
        assert page.evaluate(_IS_SEEN), seen[-1]
    assert all(seen)
    assert seen[0] == "To the controls"
    assert {"Model", "Cluster", "Plan", "Batch (sequences)", "Batch (sequences), slider"} <= set(seen)


def test_a_question_is_asked_by_keys_alone(visit):
    page = visit.open(PLAN)
    tab_to(page, "Cluster")  # the switch between device and cluster
    tab_to(page, "Cluster")
    page.keyboard.press("Control+a")
    page.keyboard.type("dgx-a100")
    expect(page.locator(".q-menu .q-item").first).to_contain_text("a100")
    page.keyboard.press("Enter")
    expect(page.locator(".answer h2.title")).to_contain_text("a100")
    tab_to(page, "Batch (sequences), slider")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".answer .lead").first).to_contain_text("32 × 2048")


def test_json_html_and_timeline_are_links_to_the_api(visit):
    page = visit.open(PLAN)
    for name, start in (("JSON", b"{"), ("HTML report", b"<!DOCTYPE html>"), ("Perfetto timeline", b"{")):
        link = page.get_by_role("link", name=name).get_attribute("href")
        reply = page.request.get(visit.server + link)
        assert reply.ok, reply.text()
        assert reply.body().lstrip().startswith(start)
    answer = json.loads(
        page.request.get(visit.server + page.get_by_role("link", name="JSON").get_attribute("href")).body()
    )
    assert answer["model"] == "llama3-8b"


def test_the_copied_command_is_the_one_that_is_shown(visit):
    page = visit.open(PLAN)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy: Command line").click()
    expect(page.get_by_role("button", name="Copy: Command line")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#perfcast-command").inner_text()
    assert copied.startswith("perfcast predict llama3-8b --")
