"""Scenarios about how steps end, what they print, and what comes from outside."""

from dataclasses import replace

import outside
from kills import FAILED, HOLD, OK, PASSED, REWARD
from scenario import UNKNOWN, Check, Right, Scenario, phase_of

from pytest_infranoise.model.trial import TrialRecord

KILLED_BY_SOMEBODY = Right(outcome="failed", exit_code=137)
LOST_BUT_COUNTED = Right(outcome="infra_error", cause="sandbox_lost", ending="lost", exit_code=None)
LOST = (replace(LOST_BUT_COUNTED, kills={"agent": UNKNOWN}), LOST_BUT_COUNTED)
"""The counter goes with the sandbox; who reads it in time still knows that there was no kill."""
IGNORE = "trap '' TERM INT HUP QUIT"
BEGUN = ": >/tmp/begun; sleep 30"
ONLY_CONTAINERS = {"local*": "it has no container", "watchdog": "it has no container"}


def printed(text: str) -> Check:
    """Check that the agent's output holds a text."""

    def check(record: TrialRecord) -> str | None:
        agent = phase_of(record, "agent")
        found = agent is not None and text in agent.output
        return None if found else f"the output does not hold {text!r}"

    return check


def cut_to_its_end(record: TrialRecord) -> str | None:
    agent = phase_of(record, "agent")
    assert agent is not None
    if agent.output_truncated and 8192 < len(agent.output) <= 16384:
        return None
    return f"{len(agent.output)} characters kept, truncated: {agent.output_truncated}"


def throttled_mostly(record: TrialRecord) -> str | None:
    agent = phase_of(record, "agent")
    if agent is None or not agent.cpu_periods or agent.throttled_periods is None:
        return "throttled periods are unknown"
    share = agent.throttled_periods / agent.cpu_periods
    return None if share > 0.5 else f"throttled in {share:.0%} of the periods"


def throttling_unknown(record: TrialRecord) -> str | None:
    agent = phase_of(record, "agent")
    known = agent is not None and (agent.cpu_periods, agent.throttled_periods) != (None, None)
    return "throttling is known, but there is no cgroup" if known else None


def within(seconds: float) -> Check:
    """Check that the agent phase took no longer."""

    def check(record: TrialRecord) -> str | None:
        agent = phase_of(record, "agent")
        if agent is not None and agent.wall_seconds <= seconds:
            return None
        return f"the agent phase took longer than {seconds} s"

    return check


BY_THEMSELVES = [
    Scenario(name="passed", agent=OK, right=PASSED, is_quick=True),
    Scenario(name="failed", agent="exit 1", right=FAILED, is_quick=True),
    Scenario(
        name="exit 137 by itself",
        agent="exit 137",
        right=KILLED_BY_SOMEBODY,
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="kill -9 by a sibling",
        agent="(sleep 0.3; kill -9 $$) & sleep 30",
        right=KILLED_BY_SOMEBODY,
        is_quick=True,
    ),
    Scenario(
        name="kill -9 of all that the task can reach",
        agent="sleep 60 & setsid sleep 60 & kill -9 -1; exit 1",
        right=FAILED,
    ),
    Scenario(
        name="segmentation fault",
        agent="kill -SEGV $$",
        right=Right(outcome="failed", exit_code=139),
    ),
    Scenario(
        name="a command that does not exist",
        agent="no-such-command",
        right=Right(outcome="failed", exit_code=127),
    ),
    Scenario(
        name="missing interpreter",
        agent="#!/no/such/interpreter\n:",
        right=Right(outcome="failed", exit_code=127),
    ),
    Scenario(
        name="missing interpreter of the tests",
        agent=OK,
        verify="#!/no/such/interpreter\n:",
        right=Right(outcome="infra_error", cause="reward_missing", exit_code=0),
    ),
    Scenario(
        name="tests without a verdict",
        agent=OK,
        verify="exit 0",
        right=Right(outcome="infra_error", cause="reward_missing", exit_code=0),
    ),
    Scenario(
        name="tests with an unreadable verdict",
        agent=OK,
        verify="echo good >/logs/verifier/reward.txt",
        right=Right(outcome="infra_error", cause="reward_invalid", exit_code=0),
    ),
]

AT_THE_DEADLINE = [
    Scenario(
        name="SIGTERM ignored at the deadline",
        agent=f"{IGNORE}; while :; do sleep 1; done",
        deadline=1.0,
        right=Right(outcome="timeout", ending="deadline", exit_code=None, checks=(within(4.0),)),
        instead={"*-v2*": Right(outcome="timeout", ending="deadline", exit_code=None)},
        is_quick=True,
    ),
    Scenario(
        name="SIGTERM ignored at the deadline, after a kill",
        agent=f"{IGNORE}; {HOLD}; while :; do sleep 1; done",
        deadline=3.0,
        right=Right(outcome="timeout", ending="deadline", exit_code=None, kills={"agent": 1}),
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="deadline, tests pass",
        agent=f"{OK}; sleep 30",
        deadline=2.0,
        right=Right(outcome="passed", ending="deadline", exit_code=None),
    ),
    Scenario(
        name="the verifier's deadline",
        agent=OK,
        verify="sleep 60",
        verify_deadline=2.0,
        right=Right(outcome="infra_error", cause="verifier_timeout", exit_code=0),
    ),
    Scenario(
        name="daemonised grandchild outlives the step",
        agent="setsid sh -c 'while :; do : >/tmp/beat; sleep 0.1; done' >/dev/null 2>&1 & exit 0",
        verify=f"rm -f /tmp/beat; sleep 2; if [ -e /tmp/beat ]; then {REWARD % 1}; fi",
        right=PASSED,
    ),
    Scenario(
        name="background child holds the output open",
        agent=f"{OK}; sleep 50 & exit 0",
        right=Right(outcome="passed", exit_code=0, checks=(within(10.0),)),
        instead={"*-v2*": PASSED},
    ),
    Scenario(
        name="CPU throttled in most periods",
        agent="for n in 1 2 3 4; do (until [ -e /tmp/stop ]; do :; done) & done\n"
        f"sleep 3; : >/tmp/stop; wait; {OK}",
        cpu=0.1,
        right=Right(outcome="passed", exit_code=0, checks=(throttled_mostly,)),
        instead={"watchdog": Right(outcome="passed", checks=(throttling_unknown,))},
    ),
]

OUTPUT = [
    Scenario(
        name="200 MB of output",
        agent=f"yes 0123456 | head -c 200000000; echo the end; {OK}",
        right=Right(outcome="passed", exit_code=0, checks=(cut_to_its_end, printed("the end\n"))),
    ),
    Scenario(
        name="output that is no UTF-8",
        agent=rf"printf 'a\303\050\377b\n'; {OK}",
        right=Right(outcome="passed", exit_code=0, checks=(printed("a\ufffd(\ufffdb\n"),)),
        is_quick=True,
    ),
    Scenario(
        name="silence longer than any client's timeout",
        agent=f"sleep 65; {OK}",
        deadline=90.0,
        right=PASSED,
        is_slow=True,
    ),
]

FROM_OUTSIDE = [
    Scenario(
        name="step killed from outside",
        agent=BEGUN,
        meanwhile=outside.kill_the_step,
        right=KILLED_BY_SOMEBODY,
        is_quick=True,
    ),
    Scenario(
        name="holder killed from outside",
        agent=BEGUN,
        meanwhile=outside.kill_the_holder,
        right=LOST,
        repeats=True,
        is_quick=True,
    ),
    Scenario(
        name="holder killed from outside, after a kill",
        agent=f"{HOLD}; sleep 4; {BEGUN}",  # nearer together they are taken for one
        meanwhile=outside.kill_the_holder,
        right=replace(LOST_BUT_COUNTED, kills={"agent": 1}),
    ),
    Scenario(
        name="sandbox removed from outside",
        agent=BEGUN,
        meanwhile=outside.remove,
        right=LOST,
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="container stopped from outside",
        agent=BEGUN,
        meanwhile=outside.stop,
        right=LOST,
        not_for=ONLY_CONTAINERS,
    ),
    Scenario(
        name="container restarted from outside",
        agent=BEGUN,
        meanwhile=outside.restart,
        right=LOST,
        not_for=ONLY_CONTAINERS,
        repeats=True,
    ),
    Scenario(
        name="paused from outside, then resumed",
        agent=f": >/tmp/begun; sleep 3; {OK}",
        meanwhile=outside.stop_for_a_second,
        right=PASSED,
    ),
    Scenario(
        name="paused from outside for good",
        agent=BEGUN,
        deadline=3.0,
        meanwhile=outside.freeze_for_good,
        right=Right(outcome="infra_error", cause="engine", ending="error"),
        is_slow=True,
    ),
    Scenario(
        name="no such image",
        image="no-such-image:infranoise-test",
        agent=OK,
        right=Right(
            outcome="infra_error", cause="image", ending="absent", kills={"setup": UNKNOWN}
        ),
        not_for={"local*": "it has no images", "watchdog": "it has no images"},
    ),
]

ON_A_SMALL_DISK = [
    Scenario(
        name="full disk, then room again",
        agent="dd if=/dev/zero of=/tmp/file bs=1M 2>/tmp/why; rm /tmp/file; "
        "grep -qi 'no space' /tmp/why && exit 7",
        right=Right(outcome="failed", exit_code=7),
        needs=("small disk",),
    ),
    Scenario(
        name="full disk for good",
        agent="for size in 1M 4k 1k; do dd if=/dev/zero of=/tmp/$size bs=$size; sync; done "
        "2>/dev/null; i=0; while echo x >/tmp/$i; do i=$((i + 1)); done 2>/dev/null; exit 7",
        right=Right(outcome="failed", exit_code=7),
        needs=("small disk",),
    ),
]

SCENARIOS = [*BY_THEMSELVES, *AT_THE_DEADLINE, *OUTPUT, *FROM_OUTSIDE, *ON_A_SMALL_DISK]
