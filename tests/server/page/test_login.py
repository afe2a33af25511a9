"""A server with a token: a browser logs in once, and its websocket goes by the same cookie."""

from __future__ import annotations

import re
import subprocess
import sys

from playwright.sync_api import expect

TOKEN = "a-token-of-sixteen-or-more"


def test_a_browser_logs_in_once(browser):
    command = [sys.executable, "-m", "perfcast", "web", "--port", "0", "--token", TOKEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            assert found is not None
            address, page = found[0].rstrip("/"), browser.new_page()
            page.goto(f"{address}/catalog")
            assert page.url.endswith("/login")
            page.get_by_label("Token of this server").fill(TOKEN)
            with page.expect_navigation():
                page.get_by_role("button", name="Enter").click()
            assert not page.url.endswith("/login")
            page.goto(f"{address}/catalog?find=h100")
            expect(page.locator(".answer tbody tr").first).to_contain_text("h100", timeout=60_000)
            page.close()
        finally:
            process.terminate()
