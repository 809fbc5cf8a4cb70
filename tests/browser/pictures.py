"""Pictures of the console's pages: wide, narrow and dark, whole pages as a reader scrolls them.

    python -m tests.browser.pictures URL DIRECTORY [PATH ...]

makes NAME-wide.png, NAME-narrow.png and NAME-dark.png of each path (the header's without any).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.browser.conftest import FLAGS, installed_browser
from tests.browser.serving_paths import header_paths

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 420, "height": 800}
LOOKS: dict[str, dict[str, Any]] = {
    "wide": {"viewport": WIDE},
    "narrow": {"viewport": NARROW},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
}


def take(browser: Any, url: str, directory: Path, paths: list[str]) -> list[Path]:
    """A picture of each path in each look; the files, which are written into `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    made = []
    for look, options in LOOKS.items():
        context = browser.new_context(base_url=url, **options)
        page = context.new_page()
        for path in paths or header_paths(page):
            page.goto(path)
            page.wait_for_timeout(300)
            name = path.partition("?")[0].strip("/").replace("/", "-") or "overview"
            file = directory / f"{name}-{look}.png"
            page.screenshot(path=file, full_page=look == "narrow")
            made.append(file)
        context.close()
    return made


def main() -> None:
    from playwright.sync_api import sync_playwright

    url, directory, *paths = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed_browser(), args=FLAGS)
        for file in take(browser, url, Path(directory), paths):
            print(file)
        browser.close()


if __name__ == "__main__":
    main()
