"""Terminal-Bench 1's `pytest` parser: every test in pytest's short summary must have passed."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_infranoise.model.outcome import Cause, Verdict

_HEADING = re.compile(r"=+\s*short test summary info\s*=+", re.IGNORECASE)
_RESULT = re.compile(r"(PASSED|FAILED|SKIPPED|XFAIL|XPASS|ERROR):?\s+(\S.*)")
_GOOD = frozenset({"PASSED", "SKIPPED", "XFAIL"})


@dataclass(frozen=True, slots=True)
class PytestSummaryGrader:
    """Passed when no line of the short test summary names a test that did not pass.

    As in the format's own harness a skipped test and an expected failure are as good as a passed
    one, and an unexpected pass is not.
    """

    def grade(self, output: str, proof: str | None) -> Verdict:
        """Judge the output; tests that printed no summary are an error, not a zero."""
        results = summary_results(output)
        if not results:
            return without_answer(output, proof, "no short test summary of pytest")
        bad = [name for name, is_good in results.items() if not is_good]
        if not bad:
            return Verdict(passed=True, score=1.0, rewards={"reward": 1.0})
        detail = f"{len(bad)} of {len(results)} tests did not pass, first {bad[0][:200]}"
        return Verdict(score=0.0, rewards={"reward": 0.0}, detail=detail)


def without_answer(output: str, proof: str | None, missing: str) -> Verdict:
    """Return the verdict on tests whose output holds no result."""
    if proof is not None:
        return Verdict(problem=Cause.VERIFIER_BOOTSTRAP, detail=proof)
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    last = lines[-1][:200] if lines else "nothing"
    return Verdict(
        problem=Cause.REWARD_MISSING, detail=f"{missing}; the last line of output: {last}"
    )


def summary_results(output: str) -> dict[str, bool]:
    """Return whether each test of the short summary passed, by what the summary calls it."""
    heading = _HEADING.search(output)
    return dict(_results(output[heading.end() :])) if heading else {}


def _results(text: str) -> Iterator[tuple[str, bool]]:
    for line in text.splitlines():
        match = _RESULT.match(line)
        if match is not None:
            status, name = match.groups()
            if status in ("FAILED", "ERROR"):
                name = name.partition(" - ")[0]  # the rest is the error's message
            yield name.strip(), status in _GOOD
