"""The language of gates; docs/gates.md describes it.

    gate        = rate-gate | lift-gate | "no-oom" ["@" SET] | "no-kill" ["@" SET] | verdict
    rate-gate   = quantity(rate) op number ["@" SET]
    lift-gate   = quantity(lift) op number | lift "~" number "+-" number
    quantity(q) = q | "upper(" q ")" | "lower(" q ")"
    rate        = "success_rate" | "infra_error_rate" | "agent_failure_rate"
    lift        = "lift(" SET ")"
    verdict     = ("recommended" | "repairs" | "neutral" | "provisional") [("=" | "<=") SET]
    op          = "<=" | ">=" | "<" | ">"
    number      = proportion | points "pp" | per cent "%"

Blanks count nowhere.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from pytest_infranoise.errors import MarkedUsageError


class Measured(StrEnum):
    """What a gate is about."""

    SUCCESS = "success_rate"
    INFRA_ERROR = "infra_error_rate"
    AGENT_FAILURE = "agent_failure_rate"
    LIFT = "lift"
    NO_OOM = "no-oom"
    NO_KILL = "no-kill"
    RECOMMENDED = "recommended"
    REPAIRS = "repairs"
    NEUTRAL = "neutral"
    PROVISIONAL = "provisional"


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate. `parameter_set` None is every set, or any where the gate is about the verdict.

    `end` is the end of the 95 % interval that counts, `upper` or `lower`; None is the measured
    value. `limit` and `margin` are proportions; a margin makes the gate one of equivalence.
    """

    text: str
    measured: Measured
    parameter_set: str | None = None
    end: str | None = None
    comparison: str | None = None
    limit: float | None = None
    margin: float | None = None


@dataclass(frozen=True, slots=True)
class KnownSets:
    """The parameter sets that a gate may name, and which of them is the baseline."""

    ids: Sequence[str]
    baseline: str | None


VERDICTS = (Measured.RECOMMENDED, Measured.REPAIRS, Measured.NEUTRAL, Measured.PROVISIONAL)
_RATES = (Measured.SUCCESS, Measured.INFRA_ERROR, Measured.AGENT_FAILURE)
_NUMBER = re.compile(r"(?P<sign>[+-]?)\s*(?P<number>\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_UNIT = re.compile(r"pp|%")
_WORD = re.compile(r"[A-Za-z][\w-]*")
_SET = re.compile(r"[^\s()@]+")
_COMPARISON = re.compile(r"<=|>=|<|>")
_FORMS = (
    "success_rate, infra_error_rate, agent_failure_rate, lift(SET), no-oom, no-kill, recommended, "
    "repairs, neutral, provisional"
)


def parse_gate(text: str, *, where: str, sets: KnownSets | None = None) -> Gate:
    """Read one gate.

    Args:
        text: The gate as the user wrote it.
        where: The option or ini key, for messages.
        sets: The study's parameter sets; None if they are not known yet.

    Raises:
        MarkedUsageError: it is none, or names a parameter set that there is not.
    """
    return _Reader(text, where, sets).gate()


class _Reader:
    """Reads a gate from left to right."""

    def __init__(self, text: str, where: str, sets: KnownSets | None) -> None:
        self._text = text
        self._where = where
        self._sets = sets
        self._place = 0

    def gate(self) -> Gate:
        """Read all of it."""
        start = self._skip()
        word = self._match(_WORD)
        if word in VERDICTS:
            gate = self._verdict(Measured(str(word)), start)
        elif word in (Measured.NO_OOM, Measured.NO_KILL):
            gate = Gate(self._text, Measured(word), self._at())
        elif word in ("upper", "lower"):
            self._expect("(", f"write for example {word}(infra_error_rate)<=5%")
            inner = self._skip()
            gate = self._compared(self._match(_WORD), inner, end=word)
        else:
            gate = self._compared(word, start)
        self._skip()
        if self._place < len(self._text):
            self._fail("nothing may follow here")
        return gate

    def _compared(self, word: str | None, start: int, *, end: str | None = None) -> Gate:
        name = None
        if word == Measured.LIFT:
            self._expect("(", "write lift(SET)")
            name = self._set(against_baseline=True)
            self._expect(")", "close the parenthesis")
        elif word not in _RATES:
            self._place = start
            self._fail(f"no gate begins so; write one of {_FORMS}")
        measured = Measured(str(word))
        if end is not None:
            self._expect(")", "close the parenthesis")
        if measured is Measured.LIFT and end is None and self._accept("~"):
            limit = self._number(signed=True)
            self._expect("+-", "write the margin, as in ~0+-3pp")
            return Gate(self._text, measured, name, None, "~", limit, self._number(margin=True))
        comparison = self._comparison(measured, end)
        limit = self._number(signed=measured is Measured.LIFT)
        if measured is not Measured.LIFT:
            name = self._at()
        return Gate(self._text, measured, name, end, comparison, limit)

    def _comparison(self, measured: Measured, end: str | None) -> str:
        self._skip()
        found = self._match(_COMPARISON)
        if found is None:
            also = " or ~" if measured is Measured.LIFT and end is None else ""
            self._fail(f"compare with <=, >=, <, >{also}")
        return found

    def _verdict(self, measured: Measured, start: int) -> Gate:
        if self._sets is not None and len(self._sets.ids) < 2:
            self._place = start
            self._fail("nothing can be recommended with one parameter set")
        for comparison in ("<=", "="):
            if self._accept(comparison):
                name = self._set(against_baseline=True)
                return Gate(self._text, measured, name, None, comparison)
        return Gate(self._text, measured)

    def _at(self) -> str | None:
        return self._set() if self._accept("@") else None

    def _set(self, *, against_baseline: bool = False) -> str:
        start = self._skip()
        name = self._match(_SET)
        if name is None:
            self._fail("name a parameter set, such as 3x or uncapped")
        known = self._sets
        if known is not None and name not in known.ids:
            self._place = start
            self._fail(f"the study has no parameter set {name!r}; it has {', '.join(known.ids)}")
        if known is not None and against_baseline and name == known.baseline:
            self._place = start
            self._fail(f"{name} is the baseline, which the others are compared with")
        return name

    def _number(self, *, signed: bool = False, margin: bool = False) -> float:
        start = self._skip()
        found = _NUMBER.match(self._text, self._place)
        if found is None or (found["sign"] and not signed):
            self._fail("write a number, such as 0.02, 2% or 2pp")
        self._place = found.end()
        self._skip()
        unit = self._match(_UNIT)
        value = float(found["number"])
        if unit is None and value >= 1:
            number = found["number"]
            self._place = start
            self._fail(f"{number} may mean points or a proportion; write {number}pp or {number}%")
        value /= 1 if unit is None else 100
        if value > 1 or (margin and value <= 0):
            self._place = start
            self._fail("a margin lies above 0" if margin and value <= 0 else "100% is the most")
        return -value if found["sign"] == "-" else value

    def _skip(self) -> int:
        while self._place < len(self._text) and self._text[self._place].isspace():
            self._place += 1
        return self._place

    def _accept(self, token: str) -> bool:
        self._skip()
        if not self._text.startswith(token, self._place):
            return False
        self._place += len(token)
        return True

    def _expect(self, token: str, hint: str) -> None:
        if not self._accept(token):
            self._fail(f"{token!r} is missing; {hint}")

    def _match(self, pattern: re.Pattern[str]) -> str | None:
        found = pattern.match(self._text, self._place)
        if found is None:
            return None
        self._place = found.end()
        return found[0]

    def _fail(self, message: str) -> NoReturn:
        raise MarkedUsageError(f"{self._where}: {message}", self._text, self._place)
