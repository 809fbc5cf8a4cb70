"""Forms of changes, as a browser fills them in."""

from __future__ import annotations

import html
import re
from typing import Any

HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')
TARGET = re.compile(r"type <strong>([^<]+)</strong>")


def hidden_values(text: str) -> dict[str, str]:
    """What a page's form has besides what is typed."""
    return {name: html.unescape(value) for name, value in HIDDEN.findall(text)}


def shown(browser: Any, name: str, **values: str) -> tuple[str, dict[str, str]]:
    """The page that shows a change, and the values of its form."""
    answer = browser.get(f"/writes/{name}", params=values)
    assert answer.status_code == 200, answer.text
    return answer.text, hidden_values(answer.text)


def change(browser: Any, name: str, typed: str = "", **values: Any) -> tuple[int, str]:
    """Show a change, then make it, with what it asks for typed in; the status and the text of the
    last answer. `end` is the value `from`, which is a word of Python."""
    if "end" in values:
        values["from"] = values.pop("end")
    answer = browser.get(f"/writes/{name}", params=values)
    if answer.status_code == 200:
        target = TARGET.search(answer.text)
        assert target is not None, answer.text
        form = {**hidden_values(answer.text), "typed": typed or html.unescape(target[1])}
        answer = browser.post(f"/writes/{name}", data=form)
    return answer.status_code, html.unescape(answer.text)
