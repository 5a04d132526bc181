"""Building a document from elements: what is text stays text, whoever wrote it.

Nothing here joins markup as strings. A tree of elements is serialised by the standard library,
which escapes every text and attribute; before that, characters that steer a terminal or the
direction of text are replaced, so that a name cannot dress up as another one.
"""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, tostring

from pytest_infranoise.report.model import one_line

Child = Element | str | None
"""An element, text, or nothing."""

TEXT_CHARACTERS = 2_000
"""The longest text outside the output of trials and the manifest."""

_KEPT = "\n\t"
_CONTROL_PICTURES = 0x2400


def tag(name: str, /, *children: Child, **attributes: str | None) -> Element:
    """Return an element.

    Args:
        name: Its name.
        children: Elements, and texts of anybody, which become one printable line each.
        attributes: By name, `_` for `-` and a trailing one dropped (`class_`); None is left out.
    """
    element = Element(name)
    for key, value in attributes.items():
        if value is not None:
            element.set(key.rstrip("_").replace("_", "-"), one_line(value, TEXT_CHARACTERS))
    return add(element, children)


def add(element: Element, children: Iterable[Child]) -> Element:
    """Append children to an element, and return it."""
    last: Element | None = element[-1] if len(element) else None
    for child in children:
        if isinstance(child, Element):
            element.append(child)
            last = child
        elif child is not None:
            text = one_line(child, TEXT_CHARACTERS)
            if last is None:
                element.text = (element.text or "") + text
            else:
                last.tail = (last.tail or "") + text
    return element


def preformatted(text: str) -> Element:
    """Return text of several lines as it stands; control characters show as pictures of them."""
    element = Element("pre", {"tabindex": "0"})
    element.text = visible(text)
    return element


def name_of(text: str, limit: int = 120) -> Element:
    """Return a name that others chose, kept apart from its neighbours' direction of writing."""
    return tag("bdi", one_line(text, limit))


def visible(text: str) -> str:
    """Return text whose every character can be seen, lines and tabs aside.

    >>> visible("a\\x1b[1mb")
    'a␛[1mb'
    """
    if text.isprintable():
        return text
    return "".join(map(_visible, text.replace("\r\n", "\n")))


def _visible(char: str) -> str:
    if char.isprintable() or char in _KEPT:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return "␡" if code == 0x7F else f"\\u{code:04x}"


def document_text(root: Element, style: str) -> str:
    """Return a whole document; `style` is our own and goes into its head as it is."""
    sheet = Element("style")
    sheet.text = style
    head = root.find("head")
    assert head is not None
    head.append(sheet)
    return "<!DOCTYPE html>\n" + tostring(root, encoding="unicode", method="html") + "\n"
