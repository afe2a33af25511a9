"""Text that a terminal can show: nothing in it commands the terminal.

Names come from files that others wrote: a model's, a kernel's, a rank's. A terminal takes control characters
in them as commands, and shows text after a mark for right-to-left in another order. Every text that is shown
goes through ``visible``: what is said (``streams``), and what rich lays out (``boxes``).
"""

from __future__ import annotations

import codecs
import unicodedata

#: Controls (C0, C1), formats (marks of direction, tags), halves of pairs, ends of lines and paragraphs.
_COMMANDS = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Of these, what text needs: joiners, with which some scripts write, and soft hyphens.
_HARMLESS = frozenset("\n\t\u00ad\u200c\u200d")
#: What stands for characters of ours where an encoding has none of them.
_PLAIN = {
    "µ": "u", "μ": "u", "→": "->", "←": "<-", "…": "...", "×": "x", "·": ".", "–": "-", "—": "-", "−": "-",
    "≥": ">=", "≤": "<=", "≈": "~", "°": " deg", "²": "^2", "│": "|", "█": "#", "✓": "yes", "±": "+-",
    "“": '"', "”": '"', "‘": "'", "’": "'",
}  # fmt: skip
#: Name of the way in which characters that an encoding lacks are written.
PLAINLY = "perfcast.plain"


def visible(text: str) -> str:
    """A text whose control characters, terminal escapes and marks of direction are written out, as ``\\x1b``.

    Ends of lines and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(one) for one in text)


def visible_line(text: str) -> str:
    """The same with ends of lines and tabs written out too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _shown(one: str) -> str:
    if one in _HARMLESS or unicodedata.category(one) not in _COMMANDS:
        return one
    return one.encode("unicode_escape").decode("ascii")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    found = (_PLAIN.get(one) or one.encode("ascii", "backslashreplace").decode() for one in lacking)
    return "".join(found), error.end


codecs.register_error(PLAINLY, _plainly)
