"""Elements of SVG as text: escaped, with presentation attributes and classes only (the content
security policy of the console lets no styles in)."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

REPLACED: Final = "\N{REPLACEMENT CHARACTER}"


def element(name: str, *children: str, **attributes: object) -> str:
    """`<name …>children</name>`; an underscore in an attribute's name is a hyphen, and one at its
    end (`class_`) is dropped. Children are markup already: text goes through `text`."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
    )
    return f"<{name}{given}>{''.join(children)}</{name}>" if children else f"<{name}{given}/>"


def picture(
    title: str, width: float, height: float, children: Iterable[str], **attributes: object
) -> str:
    """A picture of so many units of width and height, which scales with the page."""
    return element(
        "svg",
        element("title", text(title)),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
        **attributes,
    )


def label(x: float, y: float, words: str, **attributes: object) -> str:
    """A text at a place; `class_` and others as attributes."""
    return element("text", text(words), x=x, y=y, **attributes)


def bar(x: float, y: float, width: float, height: float, title: str, **attributes: object) -> str:
    """A filled rectangle, with what it stands for as its title."""
    inside = element("title", text(title))
    return element("rect", inside, x=x, y=y, width=width, height=height, **attributes)


def text(words: str) -> str:
    """Text as markup: escaped, and without characters that XML does not have."""
    return escape("".join(one if one.isprintable() else REPLACED for one in words))


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
