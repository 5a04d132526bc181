"""Scenarios in which memory decides: kernel kills, and what only looks like one."""

from dataclasses import replace

import outside
from scenario import UNKNOWN, Right, Scenario

HOLD = "dd if=/dev/zero of=/dev/null bs=64M 2>/dev/null"
"""A program that holds twice the limit until it is killed: a slow watch sees it too."""
GROW = "x=a; while :; do x=$x$x; done"
"""A shell that grows without end."""
OK = ": >/tmp/ok"
REWARD = "echo %d >/logs/verifier/reward.txt"

MAIN_KILLED = Right(
    outcome="oom",
    cause="ended_phase",
    kills={"agent": 1},
    exit_code=137,
    limit_reached=True,
    victim="step",
)
SURVIVED = Right(
    outcome="oom",
    cause="survived_then_failed",
    kills={"agent": 1},
    exit_code=0,
    limit_reached=True,
    victim="child",
)
RECOVERED = Right(
    outcome="passed", kills={"agent": 1}, exit_code=0, limit_reached=True, victim="child"
)
FAILED = Right(outcome="failed", exit_code=1)
PASSED = Right(outcome="passed", exit_code=0)

ANY_NUMBER = {"agent": (1, 10**6), "verify": (0, 10**6)}
HOLDER_IS_OUTSIDE = "its holder is not charged to the trial"
HOLDER_KILLED = Right(
    outcome="oom", cause="ended_phase", kills={"agent": (1, 6)}, ending="lost", victim="all"
)
UNATTRIBUTED = replace(
    HOLDER_KILLED, outcome="infra_error", cause="unattributed_kill", limit_reached=UNKNOWN
)
NO_CGROUP = {"watchdog": "it has no cgroup"}

IN_THE_AGENT_PHASE = [
    Scenario(
        name="main process killed", agent=GROW, right=MAIN_KILLED, is_quick=True, is_core=True
    ),
    Scenario(
        name="main process killed after exec",
        agent=f"exec {HOLD}",
        right=MAIN_KILLED,
        repeats=True,
    ),
    Scenario(
        name="main process killed, tests pass",
        agent=f"{OK}; exec {HOLD}",
        right=Right(outcome="passed", kills={"agent": 1}, exit_code=137),
    ),
    Scenario(
        name="child killed and noticed",
        agent=f"{HOLD} || exit 3",
        right=Right(outcome="oom", cause="survived_then_failed", kills={"agent": 1}, exit_code=3),
        is_quick=True,
    ),
    Scenario(
        name="child killed, its 137 passed on",
        agent=f"{HOLD}; exit $?",
        # By its exit code it cannot be told from the step itself.
        right=Right(outcome="oom", cause="ended_phase", kills={"agent": 1}, exit_code=137),
    ),
    Scenario(
        name="child killed in a pipeline that hides 137",
        agent=f"{HOLD} | cat; exit 0",
        right=SURVIVED,
        repeats=True,
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="grandchild killed in the background",
        agent=f"({HOLD} & wait; {OK}2) >/dev/null 2>&1 & until [ -e /tmp/ok2 ]; do sleep 0.1; done",
        right=SURVIVED,
    ),
    Scenario(
        name="three kills",
        agent=f"for i in 1 2 3; do {HOLD}; done; exit 1",
        right=Right(outcome="oom", cause="survived_then_failed", kills={"agent": 3}, exit_code=1),
        is_quick=True,
    ),
    Scenario(
        name="three kills at once",
        agent=f"for i in 1 2 3; do {HOLD} & done; wait; exit 0",
        right=Right(outcome="oom", cause="survived_then_failed", kills={"agent": 3}, exit_code=0),
        repeats=True,
    ),
    Scenario(
        name="kill and recovery",
        agent=f"{HOLD} || {OK}",
        right=RECOVERED,
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="kill in a sub-cgroup that the task made",
        agent=f": >/tmp/begun; until [ -e /tmp/go ]; do sleep 0.1; done; {HOLD}; exit 1",
        meanwhile=outside.move_into_a_sub_cgroup,
        right=Right(
            outcome="oom",
            cause="survived_then_failed",
            kills={"agent": 1},
            exit_code=1,
            limit_reached=True,
        ),
        not_for=NO_CGROUP,
    ),
    Scenario(
        name="kill that takes the holder along",
        before=outside.make_the_holder_the_first_victim,
        # Each too small to be chosen before the holder.
        agent="for i in 1 2 3 4 5 6; do dd if=/dev/zero of=/dev/null bs=8M & done; wait",
        right=HOLDER_KILLED,
        # Its counters go with the container; where the kernel's log cannot be read, the engine's
        # flag alone does not say whose limit it was.
        instead={"docker-v2": (HOLDER_KILLED, UNATTRIBUTED)},
        not_for={"local*": HOLDER_IS_OUTSIDE, "watchdog": HOLDER_IS_OUTSIDE},
        repeats=True,
    ),
    Scenario(
        name="swap present",
        agent=GROW,
        right=MAIN_KILLED,
        needs=("swap",),
        is_quick=True,
    ),
    Scenario(
        name="spike of ten milliseconds",
        agent=f"dd if=/dev/zero of=/dev/null bs=40M count=1 2>/dev/null && {OK}",
        right=Right(
            outcome="oom",
            cause="ended_phase",
            kills={"agent": 1},
            exit_code=137,
            limit_reached=True,
        ),
        instead={
            # Between two looks it passes, and then the watchdog knows nothing of the limit.
            "watchdog": (
                Right(outcome="passed", exit_code=0, limit_reached=UNKNOWN),
                MAIN_KILLED,
            )
        },
        repeats=True,
        is_quick=True,
    ),
    Scenario(
        name="spike below the limit",
        agent=f"dd if=/dev/zero of=/dev/null bs=16M count=1 2>/dev/null && {OK}",
        right=Right(outcome="passed", exit_code=0, limit_reached=False),
        instead={"watchdog": Right(outcome="passed", exit_code=0, limit_reached=UNKNOWN)},
        repeats=True,
    ),
    Scenario(
        name="uncapped: far above the declared memory",
        agent=f"dd if=/dev/zero of=/dev/null bs=128M count=1 2>/dev/null && {OK}",
        memory_mib=None,
        right=Right(outcome="passed", exit_code=0, limit_reached=False),
        instead={
            "watchdog": Right(
                outcome="passed", kills={"setup": UNKNOWN, "agent": UNKNOWN, "verify": UNKNOWN}
            )
        },
    ),
]

IN_OTHER_PHASES = [
    Scenario(
        name="kill in setup, then failed",
        setup=HOLD,
        agent="exit 1",
        right=Right(outcome="oom", cause="survived_then_failed", kills={"setup": 1}, exit_code=1),
        is_quick=True,
    ),
    Scenario(
        name="kill in setup, then passed",
        setup=HOLD,
        agent=OK,
        right=Right(outcome="passed", kills={"setup": 1}, exit_code=0),
    ),
    Scenario(
        name="verifier killed",
        agent=OK,
        verify=GROW,
        right=Right(outcome="oom", cause="verifier", kills={"verify": 1}, exit_code=0),
        is_quick=True,
    ),
    Scenario(
        name="verifier's child killed, reward 0",
        agent=OK,
        verify=f"{HOLD}; {REWARD % 0}",
        right=Right(outcome="oom", cause="verifier", kills={"verify": 1}, exit_code=0),
    ),
    Scenario(
        name="verifier's child killed, reward 1",
        agent=OK,
        verify=f"{HOLD}; {REWARD % 1}",
        right=Right(outcome="passed", kills={"verify": 1}, exit_code=0),
    ),
    Scenario(
        name="kills in all phases",
        setup=HOLD,
        agent=f"{HOLD}; {HOLD}; {OK}",
        verify=GROW,
        right=Right(
            outcome="oom",
            cause="verifier",
            kills={"setup": 1, "agent": 2, "verify": 1},
            exit_code=0,
        ),
        is_quick=True,
        is_core=True,
    ),
    Scenario(
        name="left in the background, killed in verify",
        agent=f"(until [ -e /tmp/verifying ]; do sleep 0.1; done; {HOLD}; : >/tmp/over) "
        ">/dev/null 2>&1 & exit 0",
        verify=f": >/tmp/verifying; until [ -e /tmp/over ]; do sleep 0.1; done; {REWARD % 0}",
        right=Right(outcome="oom", cause="verifier", kills={"verify": 1}, exit_code=0),
    ),
]

FILES_AND_PAGES = [
    Scenario(
        name="/dev/shm filled beyond the limit",
        agent="dd if=/dev/zero of=/dev/shm/file bs=1M count=48 2>/dev/null; sleep 1; exit 3",
        right=(
            # Its files stay when their writer is dead, so what comes next may be killed too.
            Right(
                outcome="oom",
                cause="survived_then_failed",
                kills={"agent": (1, 9)},
                exit_code=3,
                limit_reached=True,
            ),
            Right(
                outcome="oom",
                cause="ended_phase",
                kills={"agent": (1, 9), "verify": (0, 99)},
                exit_code=137,
                limit_reached=True,
            ),
            Right(
                outcome="oom",
                cause="verifier",
                kills={"agent": (1, 9), "verify": (1, 99)},
                exit_code=3,
                limit_reached=True,
            ),
        ),
        repeats=True,
    ),
    Scenario(
        name="/dev/shm filled, then emptied",
        agent="dd if=/dev/zero of=/dev/shm/file bs=1M count=48 2>/dev/null; sleep 1; "
        f"rm -f /dev/shm/file; {OK}",
        right=(
            Right(outcome="passed", kills={"agent": (1, 9)}, exit_code=0, limit_reached=True),
            Right(
                outcome="oom",
                cause="ended_phase",
                kills={"agent": (1, 9), "verify": (0, 99)},
                exit_code=137,
            ),
        ),
        repeats=True,
    ),
    Scenario(
        name="a tmpfs filled to its own size",
        agent="dd if=/dev/zero of=/dev/shm/file bs=1M count=80 2>/tmp/why && exit 0; "
        "rm /dev/shm/file; grep -qi 'no space' /tmp/why && exit 7",
        memory_mib=160,
        right=Right(outcome="failed", exit_code=7),
    ),
    Scenario(
        name="page cache far over the limit",
        agent="mkdir -p /var/tmp; dd if=/dev/zero of=/var/tmp/file bs=1M count=160 2>/dev/null && "
        f"cat /var/tmp/file >/dev/null && rm /var/tmp/file && {OK}",
        right=PASSED,
    ),
    Scenario(
        name="anonymous mmap over the limit",
        program="python3",
        agent="exec python3 -c 'import mmap, time\n"
        "m = mmap.mmap(-1, 128 << 20)\n"
        "for i in range(0, len(m), 4096): m[i] = 1\n"
        "time.sleep(30)'",
        memory_mib=64,
        right=MAIN_KILLED,
    ),
    Scenario(
        name="mapped file over the limit",
        program="python3",
        agent="mkdir -p /var/tmp && dd if=/dev/zero of=/var/tmp/file bs=1M count=160 2>/dev/null\n"
        "python3 -c 'import mmap\n"
        'file = open("/var/tmp/file")\n'
        "m = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n"
        f"assert not any(m[i] for i in range(0, len(m), 4096))' && {OK}; rm /var/tmp/file",
        memory_mib=64,
        right=PASSED,
    ),
]

NO_KERNEL_KILL = [
    Scenario(
        name="ulimit -v",
        agent=f"ulimit -v 30000; ({GROW}) 2>/dev/null; [ $? -ne 137 ] || exit 9; exit 1",
        right=FAILED,
    ),
    Scenario(
        name="Python's MemoryError",
        program="python3",
        agent="exec python3 -c 'import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (80 << 20, 80 << 20))\n"
        "bytearray(200 << 20)'",
        memory_mib=128,
        right=FAILED,
    ),
    Scenario(
        name="Node's heap limit",
        program="node",
        agent="exec node --max-old-space-size=16 -e "
        "'const a = []; for (;;) a.push(new Array(1000).fill(0.5))' >/dev/null 2>&1",
        memory_mib=256,
        right=Right(outcome="failed", exit_code=134),
    ),
    Scenario(
        name="Java's heap limit",
        program="java",
        agent="cat >/tmp/Hog.java <<'END'\n"
        "public class Hog { public static void main(String[] a) {\n"
        "  var all = new java.util.ArrayList<byte[]>();\n"
        "  while (true) all.add(new byte[1 << 20]);\n"
        "} }\nEND\n"
        "exec java -XX:+UseSerialGC -Xmx32m /tmp/Hog.java 2>/dev/null",
        memory_mib=384,
        right=FAILED,
    ),
    Scenario(
        name="fork bomb against a limit of processes",
        before=outside.limit_processes,
        # What is left is killed, or the tests could not start a process either.
        agent="(for i in $(seq 200); do sleep 60 & done) 2>/tmp/why; kill -9 -1; "
        "grep -qi fork /tmp/why && exit 7",
        memory_mib=64,
        right=Right(outcome="failed", exit_code=7),
        not_for=NO_CGROUP,
    ),
    Scenario(
        name="fork bomb against the memory limit",
        agent="for i in $(seq 200); do sleep 100 & done; exit 1",
        memory_mib=16,
        # Who is killed is up to the kernel; what is left fills the memory, so it may be the tests.
        right=(
            Right(outcome="oom", cause="survived_then_failed", kills=ANY_NUMBER),
            Right(outcome="oom", cause="ended_phase", kills=ANY_NUMBER, exit_code=137),
            Right(outcome="oom", cause="verifier", kills=ANY_NUMBER),
        ),
        not_for={"watchdog": "without a cgroup nothing bounds it but the host itself"},
        repeats=True,
    ),
]

SCENARIOS = [*IN_THE_AGENT_PHASE, *IN_OTHER_PHASES, *FILES_AND_PAGES, *NO_KERNEL_KILL]
