"""What a scenario of the conformance suite is: a task, and the one right record of its trial.

Scenarios are data. They run unchanged on every engine; where an engine cannot know something, or
cannot play the scenario at all, the scenario says so by the engine's name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

from pytest_infranoise.model.enforcement import DEFAULT_ENFORCEMENT, Enforcement
from pytest_infranoise.model.trial import PhaseRecord, TrialRecord

if TYPE_CHECKING:
    from outside import Outside

ENGINES = {
    "docker-v1": "Docker, cgroup v1",
    "docker-v2": "Docker, cgroup v2",
    "local-v1": "local, cgroup v1",
    "local-v2": "local, cgroup v2",
    "local-v2-user": "local, cgroup v2, ordinary user",
    "watchdog": "local, watchdog",
}
"""The engines of the table, in its order: key and name for people."""

UNKNOWN = None
"""A number that cannot be read on an engine: never 0."""

Count = int | tuple[int, int] | None
"""Exactly so many; between two numbers (races); unknown."""

Check = Callable[[TrialRecord], str | None]
"""One more look at a record: what is wrong with it, or None."""

_ANY: Any = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """The right record of a trial.

    `kills` are counted by phase; none is expected in a phase that is not named. `ending`,
    `exit_code`, `limit_reached` and `victim` are the agent phase's; left out, each may be anything.
    `checks` look at what else matters in one scenario.
    """

    outcome: str
    cause: str | None = None
    kills: Mapping[str, Count] = field(default_factory=dict)
    ending: str = "exit"
    exit_code: Any = _ANY
    limit_reached: Any = _ANY
    victim: Any = _ANY
    checks: tuple[Check, ...] = ()

    def differences(self, record: TrialRecord) -> list[str]:
        """Return what is wrong with a record, one line each."""
        found = [
            _differs("outcome", record.outcome.value, self.outcome),
            _differs("cause", record.cause and record.cause.value, self.cause),
            *self._agent_differences(record),
            *self._kill_differences(record),
            *(check(record) for check in self.checks),
        ]
        return [line for line in found if line is not None]

    def _agent_differences(self, record: TrialRecord) -> list[str | None]:
        agent = phase_of(record, "agent")
        if agent is None:
            return [] if self.ending == "absent" else ["there was no agent phase"]
        return [
            _differs("ending", agent.ending, self.ending),
            _differs("exit code", agent.exit_code, self.exit_code),
            _differs("limit_reached", agent.limit_reached, self.limit_reached),
            _differs("victim", agent.victim, self.victim),
        ]

    def _kill_differences(self, record: TrialRecord) -> list[str | None]:
        found = [
            _differs(f"kills in {phase.phase}", phase.oom_kills, self.kills.get(phase.phase, 0))
            for phase in record.phases
            if phase.phase != "teardown"
        ]
        missing = set(self.kills) - {phase.phase for phase in record.phases}
        found += [f"there was no {name} phase" for name in sorted(missing)]
        counted = [phase.oom_kills for phase in record.phases if phase.phase != "teardown"]
        if None not in counted:
            found.append(_differs("kills of the trial", record.oom_kills, sum(counted)))  # type: ignore[arg-type]
        return found


def _differs(name: str, is_: Any, right: Any) -> str | None:
    if right is _ANY or is_ == right:
        return None
    if isinstance(right, tuple) and is_ is not None and right[0] <= is_ <= right[1]:
        return None
    wanted = f"{right[0]} to {right[1]}" if isinstance(right, tuple) else repr(right)
    return f"{name}: {is_!r}, right is {wanted}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One task, what happens to it from outside, and its right record.

    Attributes:
        name: Unique; the table's first column.
        agent: The solution, a script of the agent phase; an own first line `#!` is kept.
        right: The right record, or several where a race may end in more than one way.
        setup: A command of the setup phase, after the solution was copied in.
        verify: The tests; they pass by default if the solution left /tmp/ok.
        memory_mib: The kill threshold; None for an uncapped set.
        cpu: The CPU limit in cores.
        deadline: The agent's, in seconds.
        verify_deadline: The verifier's, in seconds.
        before: What is done to the sandbox from outside before the agent begins.
        meanwhile: What is done from outside once the solution has made /tmp/begun.
        enforcement: The method of enforcing limits.
        ceiling_mib: What all sandboxes of the study together may use; None for no ceiling.
        program: A program that the task needs beyond the small image, or None.
        image: What the engine is asked for instead of the scenario's image.
        needs: What the host or engine must have, by the names of `engines.FACILITIES`.
        instead: Other right records, by engine (patterns of `ENGINES`; the first match counts).
        not_for: Engines that cannot play it (patterns), each with the reason.
        repeats: Whether it is a race, which is played several times.
        is_slow: Whether it takes long enough to be left out by default.
        is_quick: Whether an emulated machine plays it by default.
        is_core: Whether an emulated machine plays it by default on Docker too, which is slow there.
    """

    name: str
    agent: str
    right: Right | tuple[Right, ...]
    setup: str | None = None
    verify: str = (
        "[ -e /tmp/ok ] && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt"
    )
    memory_mib: int | None = 32
    cpu: float | None = None
    deadline: float = 60.0
    verify_deadline: float = 60.0
    before: "Callable[[Outside], None] | None" = None
    meanwhile: "Callable[[Outside], None] | None" = None
    enforcement: Enforcement = DEFAULT_ENFORCEMENT
    ceiling_mib: int | None = None
    program: str | None = None
    image: str | None = None
    needs: tuple[str, ...] = ()
    instead: "Mapping[str, Right | tuple[Right, ...]]" = field(default_factory=dict)
    not_for: Mapping[str, str] = field(default_factory=dict)
    repeats: bool = False
    is_slow: bool = False
    is_quick: bool = False
    is_core: bool = False

    def right_on(self, engine: str) -> tuple[Right, ...]:
        """Return the right records on an engine: one, or several for a race."""
        right = next((r for p, r in self.instead.items() if fnmatch(engine, p)), self.right)
        return right if isinstance(right, tuple) else (right,)

    def reason_against(self, engine: str) -> str | None:
        """Return why an engine cannot play the scenario, None if it can."""
        return next((why for p, why in self.not_for.items() if fnmatch(engine, p)), None)

    def differences(self, record: TrialRecord, engine: str) -> list[str]:
        """Return what is wrong with a record; of several right ones, against the nearest."""
        return min((right.differences(record) for right in self.right_on(engine)), key=len)


def phase_of(record: TrialRecord, name: str) -> PhaseRecord | None:
    """Return one phase of a record, None if it never began."""
    return next((phase for phase in record.phases if phase.phase == name), None)
