"""Terminal-Bench 1's parsers of one word between two marks: `swebench` and those like it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_infranoise.model.outcome import Verdict
from pytest_infranoise.tasks.pytest_summary import without_answer


@dataclass(frozen=True, slots=True)
class MarkedBlockGrader:
    """Passed when nothing but the word `passed` stands between the marks, of which `name` is part.

    As in the format's own harness from the first mark to the last.
    """

    name: str
    passed: str = "PASSED"

    def grade(self, output: str, proof: str | None) -> Verdict:
        """Judge the output; tests that printed no marks are an error, not a zero."""
        start, end = f"{self.name} results starts here", f"{self.name} results ends here"
        _, found, rest = output.partition(start)
        block, ended, _ = rest.rpartition(end)
        if not (found and ended):
            return without_answer(output, proof, f"no {start!r} and {end!r}")
        said = block.strip()
        if said == self.passed:
            return Verdict(passed=True, score=1.0, rewards={"reward": 1.0})
        lines = said.splitlines()
        detail = f"the tests say {lines[-1].strip()[:200]!r}" if lines else "the tests say nothing"
        return Verdict(score=0.0, rewards={"reward": 0.0}, detail=detail)


BY_PARSER: Mapping[str, MarkedBlockGrader] = {
    "swebench": MarkedBlockGrader("SWEBench"),
    "sweperf": MarkedBlockGrader("SWE-Perf"),
    "mlebench": MarkedBlockGrader("MLEBench", "ALL TESTS PASSED"),
}
"""What judges a task, by its `parser_name`."""
