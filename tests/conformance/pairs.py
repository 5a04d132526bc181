"""Scenarios with two causes in one trial: which of them the record names.

The pairs are those of the table in docs/measurement.md. No scenario needs a network: what a program
prints without one is printed by a function of its name.
"""

import outside
from kills import GROW, HOLD, OK, REWARD
from scenario import Check, Right, Scenario

from pytest_infranoise.model.trial import TrialRecord

NO_NETWORK = "curl() { echo 'curl: (6) Could not resolve host: pkgs.net'; }; curl https://pkgs.net"
NO_TOOL = "echo '/tests/test.sh: line 4: curl: command not found'"
NO = REWARD % 0
BEGUN = ": >/tmp/begun; sleep 30"
TOO_LONG = "sleep 30"


def says(*words: str) -> Check:
    """Check that the detail names each of these."""

    def check(record: TrialRecord) -> str | None:
        missing = [word for word in words if word not in (record.detail or "")]
        return f"the detail {record.detail!r} lacks {missing}" if missing else None

    return check


def infra(cause: str, **facts: object) -> Right:
    return Right(outcome="infra_error", cause=cause, **facts)  # type: ignore[arg-type]


IN_VERIFY, IN_AGENT = {"verify": 1}, {"agent": 1}
TIMEOUT = Right(outcome="timeout", ending="deadline", exit_code=None)

SCENARIOS = [
    Scenario(
        name="network failed in verify, and a harmless kill there",
        agent=OK,
        verify=f"{HOLD}; {NO_NETWORK}; {NO}",
        right=infra(
            "verifier_bootstrap", kills=IN_VERIFY, checks=(says("resolve host", "1 in verify"),)
        ),
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="network failed in verify, then a kill ended the tests",
        agent=OK,
        verify=f"{NO_NETWORK}; {GROW}",
        right=Right(
            outcome="oom", cause="verifier", kills=IN_VERIFY, checks=(says("resolve host"),)
        ),
    ),
    Scenario(
        name="network failed in verify, after a kill that the agent survived",
        agent=f"{HOLD}; {OK}",
        verify=f"{NO_NETWORK}; {NO}",
        right=infra("verifier_bootstrap", kills=IN_AGENT, checks=(says("1 in agent"),)),
    ),
    Scenario(
        name="network failed in verify, after a kill that ended the agent phase",
        agent=GROW,
        verify=f"{NO_NETWORK}; {NO}",
        right=Right(outcome="oom", cause="ended_phase", kills=IN_AGENT, exit_code=137),
    ),
    Scenario(
        name="network failed in verify, after the agent's deadline",
        agent=TOO_LONG,
        deadline=1.0,
        verify=f"{NO_NETWORK}; {NO}",
        right=TIMEOUT,
    ),
    Scenario(
        name="network failed in verify, then the verifier's deadline",
        agent=OK,
        verify=f"{NO_NETWORK}; {TOO_LONG}",
        verify_deadline=2.0,
        right=infra("verifier_timeout", checks=(says("deadline", "resolve host"),)),
    ),
    Scenario(
        name="network failed in verify, then the sandbox was removed",
        agent=OK,
        verify=f"{NO_NETWORK}; {BEGUN}",
        meanwhile=outside.remove,
        right=(infra("sandbox_lost", kills={"verify": None}), infra("sandbox_lost")),
    ),
    Scenario(
        name="the agent prints that the network failed",
        agent=f"{HOLD}; {NO_NETWORK}; exit 6",
        verify=NO,
        right=Right(outcome="oom", cause="survived_then_failed", kills=IN_AGENT, exit_code=6),
    ),
    Scenario(
        name="tests that fetch nothing print the agent's word of the network",
        agent="echo 'curl: (6) Could not resolve host: pkgs.net' >/tmp/answer",
        verify=f"cat /tmp/answer; {NO}",
        right=Right(outcome="failed", exit_code=0),
    ),
    Scenario(
        name="tool missing in verify, where its install was killed",
        agent=OK,
        verify=f"{HOLD}; {NO_TOOL}; {NO}",
        right=Right(
            outcome="oom", cause="verifier", kills=IN_VERIFY, checks=(says("curl: command"),)
        ),
        is_quick=True,
    ),
    Scenario(
        name="tool missing in verify, after a kill that the agent survived",
        agent=f"{HOLD}; {OK}",
        verify=f"{NO_TOOL}; {NO}",
        right=infra("verifier_bootstrap", kills=IN_AGENT, checks=(says("1 in agent"),)),
    ),
    Scenario(
        name="tool missing in verify, after the agent's deadline",
        agent=TOO_LONG,
        deadline=1.0,
        verify=f"{NO_TOOL}; {NO}",
        right=TIMEOUT,
    ),
    Scenario(
        name="kill survived, then the verifier's deadline",
        agent=f"{HOLD}; {OK}",
        verify=TOO_LONG,
        verify_deadline=2.0,
        right=infra("verifier_timeout", kills=IN_AGENT),
    ),
    Scenario(
        name="kill in verify, then the verifier's deadline",
        agent=OK,
        verify=f"{HOLD}; {TOO_LONG}",
        verify_deadline=3.0,
        right=Right(outcome="oom", cause="verifier", kills=IN_VERIFY),
    ),
    Scenario(
        name="agent's deadline, then a kill in verify",
        agent=TOO_LONG,
        deadline=1.0,
        verify=GROW,
        right=Right(outcome="timeout", ending="deadline", exit_code=None, kills=IN_VERIFY),
    ),
    Scenario(
        name="agent's deadline, then the sandbox was removed",
        agent=TOO_LONG,
        deadline=1.0,
        verify=BEGUN,
        meanwhile=outside.remove,
        right=(
            infra("sandbox_lost", ending="deadline", kills={"verify": None}),
            infra("sandbox_lost", ending="deadline"),
        ),
    ),
    Scenario(
        name="kill survived, then the sandbox was removed in verify",
        agent=f"{HOLD}; {OK}",
        verify=BEGUN,
        meanwhile=outside.remove,
        right=(
            infra("sandbox_lost", kills={**IN_AGENT, "verify": None}),
            infra("sandbox_lost", kills=IN_AGENT),
        ),
    ),
]
