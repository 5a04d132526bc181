"""Text from outside (engines, images, agents), made fit for a terminal."""

import re

_SEQUENCE = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # colours, cursor movements
    r"|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[ -/]*[0-~])?"
    r"|\x9b[0-?]*[ -/]*[@-~]"
)


def printable(text: str) -> str:
    """Return text without what steers a terminal; its lines stay lines."""
    plain = _SEQUENCE.sub("", text).replace("\r\n", "\n")
    return "".join(char if char.isprintable() or char in "\n\t" else " " for char in plain)
