"""A headless Chromium, and pages of recorded steps opened in it."""

import os
import runpy
import shutil
from pathlib import Path

import pytest

made = runpy.run_path(str(Path(__file__).parents[1] / "unit" / "recorded" / "made_step.py"))
# A busy machine is not a failure; what has to be quick is measured by the browser's own clock.
PATIENCE = 240_000  # milliseconds
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def chromium():
    """The browser. Where it or playwright is missing the tests fail: `make test-browser` helps."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium):
    """Opens a file without network; the page must ask for nothing else and raise no error."""
    contexts, asked, errors = [], [], []

    def open_page(path):
        context = chromium.new_context(viewport={"width": 1400, "height": 900}, offline=True)
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text))
        page.on("dialog", lambda dialog: errors.append(f"dialog {dialog.message}"))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        assert asked[-1] == path.as_uri()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    assert len(asked) == len(contexts)
