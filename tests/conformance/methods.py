"""Scenarios about methods of enforcing limits: policies, overruns, ceilings, what is seen."""

import outside
from endings import BEGUN, LOST, within
from kills import GROW, HOLD, OK, PASSED, REWARD
from scenario import Right, Scenario

from pytest_infranoise.model.enforcement import Enforcement

CONTAINER = Enforcement(oom_policy="container")
LENIENT = Enforcement(lenient_seconds=2.0)
ENDED_BY_POLICY = Right(
    outcome="oom",
    cause="ended_phase",
    ending="oom_policy",
    exit_code=None,
    # The kernel may kill a whole group, and counts each process.
    kills={"agent": (1, 9)},
    limit_reached=True,
)
NO_CEILING = {"watchdog": "without a cgroup it can have no ceiling"}
BESIDE = f": >/tmp/begun; until [ -e /tmp/go ]; do sleep 0.1; done; {OK}"

POLICY = [
    Scenario(
        name="container policy: a child's kill ends the trial",
        enforcement=CONTAINER,
        agent=f"{HOLD}; {OK}; sleep 30",
        right=ENDED_BY_POLICY,
        repeats=True,
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="container policy: the main process killed",
        enforcement=CONTAINER,
        agent=GROW,
        right=ENDED_BY_POLICY,
    ),
    Scenario(
        name="container policy: kill in a pipeline",
        enforcement=CONTAINER,
        agent=f"{HOLD} | cat; exit 0",
        right=ENDED_BY_POLICY,
        repeats=True,
    ),
    Scenario(
        name="container policy: kill in verify",
        enforcement=CONTAINER,
        agent=OK,
        verify=f"{HOLD}; {REWARD % 1}; sleep 30",
        right=Right(outcome="oom", cause="verifier", kills={"verify": (1, 9)}, exit_code=0),
    ),
    Scenario(
        name="container policy: no kill",
        enforcement=CONTAINER,
        agent=OK,
        right=PASSED,
    ),
]

OVERRUN = [
    Scenario(
        name="lenient: a short overrun",
        enforcement=LENIENT,
        ceiling_mib=256,
        agent=f"dd if=/dev/zero of=/dev/null bs=64M count=1 2>/dev/null && {OK}",
        right=PASSED,
        not_for=NO_CEILING,
    ),
    Scenario(
        name="lenient: an overrun without end",
        enforcement=LENIENT,
        ceiling_mib=256,
        agent=HOLD,
        right=Right(
            outcome="oom",
            cause="ended_phase",
            kills={"agent": 1},
            exit_code=137,
            limit_reached=True,
            checks=(within(20.0),),
        ),
        not_for=NO_CEILING,
        is_quick=True,
    ),
]

CEILING = [
    Scenario(
        name="greedy under a shared ceiling",
        ceiling_mib=64,
        memory_mib=128,
        agent=outside.HOLD_96_MIB,
        right=Right(outcome="infra_error", cause="host_memory", kills={"agent": 1}, exit_code=137),
        not_for=NO_CEILING,
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="idle beside a greedy one under a shared ceiling",
        ceiling_mib=64,
        agent=BESIDE,
        meanwhile=outside.greed_beside_then_go,
        right=PASSED,
        not_for=NO_CEILING,
        is_quick=True,
    ),
    Scenario(
        name="idle beside a greedy one, then ended from outside",
        ceiling_mib=64,
        agent=BEGUN,
        meanwhile=outside.greed_beside_then_end,
        right=LOST,
        not_for=NO_CEILING,
    ),
]

SEEN = [
    Scenario(
        name="visible=limit: one CPU is seen",
        enforcement=Enforcement(visible="limit"),
        cpu=1.0,
        agent=f'[ "$OMP_NUM_THREADS" = 1 ] && [ "$(OMP_NUM_THREADS= nproc)" = 1 ] && {OK}',
        right=PASSED,
    ),
]

SCENARIOS = [*POLICY, *OVERRUN, *CEILING, *SEEN]
