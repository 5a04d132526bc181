"""The precedence of outcomes, rule by rule, and what holds for all evidence."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_infranoise.model.outcome import (
    Cause,
    Ending,
    Evidence,
    Outcome,
    Phase,
    PhaseEvidence,
    Verdict,
    classify,
    increase,
)

PASSED = Verdict(passed=True, score=1.0)
FAILED = Verdict(score=0.0)
NO_REWARD = Verdict(problem=Cause.REWARD_MISSING, detail="none")
NO_NETWORK = Verdict(
    problem=Cause.VERIFIER_BOOTSTRAP, detail="could not resolve", network_failed=True
)
NO_TOOL = Verdict(problem=Cause.VERIFIER_BOOTSTRAP, detail="curl: not found")


def phase(name: Phase, ending: Ending = Ending.EXIT, **facts: Any) -> PhaseEvidence:
    facts.setdefault("oom_kills", 0)
    facts.setdefault("exit_code", 0)
    return PhaseEvidence(name, ending, **facts)


SETUP = phase(Phase.SETUP)
AGENT = phase(Phase.AGENT)
VERIFY = phase(Phase.VERIFY)
# Our own kill: the counter rose and our own limit was reached.
KILLED = {"oom_kills": 1, "limit_reached": True}
REFUSED = {"api_error": "rate limit: API Error: 429"}


def agent(ending: Ending = Ending.EXIT, **facts: Any) -> PhaseEvidence:
    return phase(Phase.AGENT, ending, **facts)


def verify(ending: Ending = Ending.EXIT, **facts: Any) -> PhaseEvidence:
    return phase(Phase.VERIFY, ending, **facts)


OOM, INFRA, PASS = Outcome.OOM, Outcome.INFRA_ERROR, Outcome.PASSED
HELPER = Cause.HELPER_LOST

CASES: list[tuple[str, list[PhaseEvidence], Verdict | None, bool, Outcome, Cause | None]] = [
    # 1. passed, whatever else happened
    ("plain pass", [SETUP, AGENT, VERIFY], PASSED, True, Outcome.PASSED, None),
    ("passed after a kill", [agent(**KILLED), VERIFY], PASSED, True, Outcome.PASSED, None),
    ("passed late", [agent(Ending.DEADLINE), VERIFY], PASSED, True, Outcome.PASSED, None),
    (
        "passed, then the sandbox was lost in teardown",
        [AGENT, VERIFY, phase(Phase.TEARDOWN, Ending.ERROR)],
        PASSED,
        True,
        Outcome.PASSED,
        None,
    ),
    # 2. the provider
    (
        "no container",
        [phase(Phase.SETUP, Ending.ERROR, error_cause=Cause.SANDBOX_START)],
        None,
        True,
        INFRA,
        Cause.SANDBOX_START,
    ),
    ("container removed", [agent(Ending.LOST)], None, True, INFRA, Cause.SANDBOX_LOST),
    (
        "engine died",
        [agent(Ending.ERROR, error_cause=Cause.ENGINE)],
        None,
        True,
        INFRA,
        Cause.ENGINE,
    ),
    (
        "engine died after a kill that the agent survived",
        [agent(Ending.ERROR, error_cause=Cause.ENGINE, **KILLED)],
        None,
        True,
        INFRA,
        Cause.ENGINE,
    ),
    ("an error nobody named", [agent(Ending.ERROR)], None, True, INFRA, Cause.HARNESS),
    (
        "an error in teardown does not matter",
        [AGENT, VERIFY, phase(Phase.TEARDOWN, Ending.ERROR)],
        FAILED,
        True,
        Outcome.FAILED,
        None,
    ),
    (
        "killed, but not at our threshold",
        [agent(exit_code=137, oom_kills=1, limit_reached=False), VERIFY],
        FAILED,
        True,
        INFRA,
        Cause.HOST_MEMORY,
    ),
    (
        "killed while uncapped",
        [agent(exit_code=137, oom_kills=1, limit_reached=False), VERIFY],
        FAILED,
        False,
        INFRA,
        Cause.HOST_MEMORY,
    ),
    (
        "killed while uncapped, whatever the counters say of a limit",
        [agent(exit_code=137, oom_kills=1, limit_reached=None), VERIFY],
        FAILED,
        False,
        INFRA,
        Cause.HOST_MEMORY,
    ),
    (
        "killed, and nobody can say by whose limit",
        [agent(exit_code=137, oom_kills=1, limit_reached=None), VERIFY],
        FAILED,
        True,
        INFRA,
        Cause.UNATTRIBUTED_KILL,
    ),
    # 3. what ended the agent phase
    ("killed", [agent(exit_code=137, **KILLED), VERIFY], FAILED, True, OOM, Cause.ENDED_PHASE),
    (
        "the policy ended it",
        [agent(Ending.OOM_POLICY, **KILLED)],
        FAILED,
        True,
        OOM,
        Cause.ENDED_PHASE,
    ),
    (
        "the kill took the holder along",
        [agent(Ending.LOST, took_holder=True, **KILLED)],
        None,
        True,
        OOM,
        Cause.ENDED_PHASE,
    ),
    (
        "a kill at nobody knows whose limit took the holder along",
        [agent(Ending.LOST, took_holder=True, oom_kills=1, error_cause=Cause.SANDBOX_LOST)],
        None,
        True,
        INFRA,
        Cause.UNATTRIBUTED_KILL,
    ),
    (
        "removed by somebody after a kill",
        [agent(Ending.LOST, took_holder=False, error_cause=Cause.SANDBOX_LOST, **KILLED)],
        None,
        True,
        INFRA,
        Cause.SANDBOX_LOST,
    ),
    (
        "lost after a kill, and by whom is unknown",
        [agent(Ending.LOST, error_cause=Cause.SANDBOX_LOST, **KILLED)],
        None,
        True,
        INFRA,
        Cause.SANDBOX_LOST,
    ),
    ("deadline", [agent(Ending.DEADLINE), VERIFY], FAILED, True, Outcome.TIMEOUT, None),
    (
        "deadline after a kill",
        [agent(Ending.DEADLINE, exit_code=None, **KILLED), VERIFY],
        FAILED,
        True,
        Outcome.TIMEOUT,
        None,
    ),
    (
        "deadline, then a verifier without an answer",
        [agent(Ending.DEADLINE), VERIFY],
        NO_REWARD,
        True,
        Outcome.TIMEOUT,
        None,
    ),
    # the model's provider refused to work: only where nothing else explains the trial
    (
        "model refused",
        [agent(exit_code=1, **REFUSED), VERIFY],
        FAILED,
        True,
        INFRA,
        Cause.MODEL_API,
    ),
    (
        "model refused, so no reward",
        [agent(exit_code=1, **REFUSED), VERIFY],
        NO_REWARD,
        True,
        INFRA,
        Cause.MODEL_API,
    ),
    (
        "model refused, but passed",
        [agent(exit_code=1, **REFUSED), VERIFY],
        PASSED,
        True,
        Outcome.PASSED,
        None,
    ),
    (
        "agent killed, and the model refused",
        [agent(exit_code=137, **KILLED, **REFUSED), VERIFY],
        FAILED,
        True,
        OOM,
        Cause.ENDED_PHASE,
    ),
    (
        "child killed, and the model refused",
        [agent(exit_code=1, **KILLED, **REFUSED), VERIFY],
        FAILED,
        True,
        OOM,
        Cause.SURVIVED_THEN_FAILED,
    ),
    (
        "killed by the host, and the model refused",
        [agent(exit_code=1, oom_kills=1, limit_reached=False, **REFUSED), VERIFY],
        FAILED,
        True,
        INFRA,
        Cause.HOST_MEMORY,
    ),
    (
        "model refused, then the verifier killed",
        [agent(exit_code=1, **REFUSED), verify(exit_code=137, **KILLED)],
        FAILED,
        True,
        OOM,
        Cause.VERIFIER,
    ),
    (
        "model refused, then the sandbox lost",
        [agent(exit_code=1, **REFUSED), verify(Ending.LOST)],
        None,
        True,
        INFRA,
        Cause.SANDBOX_LOST,
    ),
    # 4. and 5. verification
    (
        "verifier killed",
        [AGENT, verify(exit_code=137, **KILLED)],
        FAILED,
        True,
        OOM,
        Cause.VERIFIER,
    ),
    ("verifier killed, no reward", [AGENT, verify(**KILLED)], NO_REWARD, True, OOM, Cause.VERIFIER),
    (
        "the harness's own step was killed",
        [AGENT, verify(Ending.ERROR, error_cause=Cause.HARNESS, **KILLED)],
        None,
        True,
        OOM,
        Cause.VERIFIER,
    ),
    (
        "verifier deadline",
        [AGENT, verify(Ending.DEADLINE)],
        NO_REWARD,
        True,
        INFRA,
        Cause.VERIFIER_TIMEOUT,
    ),
    ("no reward", [AGENT, VERIFY], NO_REWARD, True, INFRA, Cause.REWARD_MISSING),
    (
        "no reward after a survived kill",
        [agent(**KILLED), VERIFY],
        NO_REWARD,
        True,
        INFRA,
        Cause.REWARD_MISSING,
    ),
    (
        "killed in the verifier's own sandbox",
        [AGENT, VERIFY, verify(exit_code=137, in_verifier=True, **KILLED)],
        FAILED,
        True,
        INFRA,
        Cause.VERIFIER_MEMORY,
    ),
    (
        "killed in the verifier's own sandbox of an uncapped set",
        [AGENT, verify(exit_code=137, in_verifier=True, **KILLED)],
        FAILED,
        False,
        INFRA,
        Cause.VERIFIER_MEMORY,
    ),
    (
        "the verifier's own sandbox was lost to a kill at its limit",
        [AGENT, verify(Ending.LOST, in_verifier=True, took_holder=True, **KILLED)],
        None,
        True,
        INFRA,
        Cause.VERIFIER_MEMORY,
    ),
    (
        "killed in the verifier's own sandbox, but by the host",
        [AGENT, verify(exit_code=137, in_verifier=True, oom_kills=1, limit_reached=False)],
        FAILED,
        False,
        INFRA,
        Cause.HOST_MEMORY,
    ),
    (
        "killed while the agent's sandbox was collected from, before a verifier's own",
        [AGENT, verify(exit_code=0, **KILLED), verify(in_verifier=True)],
        FAILED,
        True,
        OOM,
        Cause.VERIFIER,
    ),
    # a helper service that came to its end
    ("passed without its helper", [agent(helper_lost="db"), VERIFY], PASSED, True, PASS, None),
    ("a helper was lost", [agent(helper_lost="db"), VERIFY], FAILED, True, INFRA, HELPER),
    (
        "a helper was lost, so the agent waited in vain",
        [agent(Ending.DEADLINE, exit_code=None, helper_lost="db")],
        None,
        True,
        INFRA,
        HELPER,
    ),
    (
        "a helper was lost while the tests ran",
        [AGENT, verify(helper_lost="db")],
        NO_REWARD,
        True,
        INFRA,
        HELPER,
    ),
    (
        "a helper died with the agent, whose own limit ended it",
        [agent(exit_code=137, helper_lost="db", **KILLED), VERIFY],
        FAILED,
        True,
        OOM,
        Cause.ENDED_PHASE,
    ),
    (
        "a helper was lost after a kill that the agent survived",
        [agent(helper_lost="db", **KILLED), VERIFY],
        FAILED,
        True,
        INFRA,
        HELPER,
    ),
    (
        "the engine failed, whatever became of a helper",
        [agent(Ending.ERROR, error_cause=Cause.ENGINE, helper_lost="db")],
        None,
        True,
        INFRA,
        Cause.ENGINE,
    ),
    # 6. and 7.
    (
        "survived, then failed",
        [agent(exit_code=1, **KILLED), VERIFY],
        FAILED,
        True,
        OOM,
        Cause.SURVIVED_THEN_FAILED,
    ),
    ("plain failure", [SETUP, AGENT, VERIFY], FAILED, True, Outcome.FAILED, None),
    ("137 by itself", [agent(exit_code=137), VERIFY], FAILED, True, Outcome.FAILED, None),
    (
        "137 with an unreadable counter proves nothing",
        [agent(exit_code=137, oom_kills=None), VERIFY],
        FAILED,
        True,
        Outcome.FAILED,
        None,
    ),
]


@pytest.mark.parametrize(
    ("phases", "verdict", "capped", "outcome", "cause"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_precedence(
    phases: list[PhaseEvidence],
    verdict: Verdict | None,
    capped: bool,
    outcome: Outcome,
    cause: Cause | None,
) -> None:
    found = classify(Evidence(phases, verdict, memory_is_capped=capped))
    assert (found.outcome, found.cause) == (outcome, cause)


HARMLESS = verify(**KILLED)
FATAL = verify(exit_code=137, **KILLED)
LATE = verify(Ending.DEADLINE, exit_code=None)
LOST = verify(Ending.LOST, error_cause=Cause.SANDBOX_LOST)
TIMEOUT = Outcome.TIMEOUT
BOOTSTRAP = Cause.VERIFIER_BOOTSTRAP

PAIRS: list[tuple[str, list[PhaseEvidence], Verdict | None, Outcome, Cause | None]] = [
    ("network, kill in the tests", [AGENT, HARMLESS], NO_NETWORK, INFRA, BOOTSTRAP),
    ("network, kill ended the tests", [AGENT, FATAL], NO_NETWORK, OOM, Cause.VERIFIER),
    (
        "network, kill survived by the agent",
        [agent(**KILLED), VERIFY],
        NO_NETWORK,
        INFRA,
        BOOTSTRAP,
    ),
    (
        "network, kill ended the agent phase",
        [agent(exit_code=137, **KILLED), VERIFY],
        NO_NETWORK,
        OOM,
        Cause.ENDED_PHASE,
    ),
    ("network, agent's deadline", [agent(Ending.DEADLINE), VERIFY], NO_NETWORK, TIMEOUT, None),
    ("network, tests' deadline", [AGENT, LATE], NO_NETWORK, INFRA, Cause.VERIFIER_TIMEOUT),
    ("network, provider", [AGENT, LOST], NO_NETWORK, INFRA, Cause.SANDBOX_LOST),
    (
        "network, model's provider",
        [agent(exit_code=1, **REFUSED), HARMLESS],
        NO_NETWORK,
        INFRA,
        Cause.MODEL_API,
    ),
    (
        "network, kill in the verifier's own sandbox",
        [AGENT, verify(in_verifier=True, **KILLED)],
        NO_NETWORK,
        INFRA,
        BOOTSTRAP,
    ),
    ("missing tool, kill in the tests", [AGENT, HARMLESS], NO_TOOL, OOM, Cause.VERIFIER),
    (
        "missing tool, kill survived by the agent",
        [agent(**KILLED), VERIFY],
        NO_TOOL,
        INFRA,
        BOOTSTRAP,
    ),
    ("missing tool, agent's deadline", [agent(Ending.DEADLINE), VERIFY], NO_TOOL, TIMEOUT, None),
    ("missing tool, tests' deadline", [AGENT, LATE], NO_TOOL, INFRA, Cause.VERIFIER_TIMEOUT),
    (
        "kill survived, then the agent's deadline",
        [agent(Ending.DEADLINE, exit_code=None, **KILLED), VERIFY],
        FAILED,
        TIMEOUT,
        None,
    ),
    (
        "kill survived, then the tests' deadline",
        [agent(**KILLED), LATE],
        NO_REWARD,
        INFRA,
        Cause.VERIFIER_TIMEOUT,
    ),
    (
        "kill in the tests, then their deadline",
        [AGENT, verify(Ending.DEADLINE, exit_code=None, **KILLED)],
        NO_REWARD,
        OOM,
        Cause.VERIFIER,
    ),
    ("agent's deadline, kill in the tests", [agent(Ending.DEADLINE), FATAL], FAILED, TIMEOUT, None),
    ("kill survived, then lost", [agent(**KILLED), LOST], None, INFRA, Cause.SANDBOX_LOST),
    (
        "agent's deadline, then lost",
        [agent(Ending.DEADLINE), LOST],
        None,
        INFRA,
        Cause.SANDBOX_LOST,
    ),
    ("agent's deadline, tests' deadline", [agent(Ending.DEADLINE), LATE], NO_REWARD, TIMEOUT, None),
]
"""Two causes in one trial, and who wins: the table of docs/measurement.md."""


@pytest.mark.parametrize(
    ("phases", "verdict", "outcome", "cause"),
    [pair[1:] for pair in PAIRS],
    ids=[pair[0] for pair in PAIRS],
)
def test_who_wins_of_two_causes(
    phases: list[PhaseEvidence], verdict: Verdict | None, outcome: Outcome, cause: Cause | None
) -> None:
    found = classify(Evidence(phases, verdict))
    assert (found.outcome, found.cause) == (outcome, cause)


FULL_DISK = "the host's disk was full"


@pytest.mark.parametrize(
    ("phases", "verdict", "outcome", "cause"),
    [
        ([AGENT, VERIFY], PASSED, Outcome.PASSED, None),
        ([AGENT, VERIFY], FAILED, INFRA, Cause.HOST_DISK),
        ([AGENT, VERIFY], NO_REWARD, INFRA, Cause.HOST_DISK),
        ([AGENT, VERIFY], NO_NETWORK, INFRA, Cause.HOST_DISK),
        ([AGENT, LATE], NO_REWARD, INFRA, Cause.HOST_DISK),
        ([agent(**REFUSED), VERIFY], FAILED, INFRA, Cause.HOST_DISK),
        ([agent(**KILLED), VERIFY], FAILED, INFRA, Cause.HOST_DISK),
        ([agent(exit_code=137, **KILLED), VERIFY], FAILED, OOM, Cause.ENDED_PHASE),
        ([agent(Ending.DEADLINE), VERIFY], FAILED, TIMEOUT, None),
        ([AGENT, verify(**KILLED)], FAILED, OOM, Cause.VERIFIER),
        ([agent(Ending.LOST)], None, INFRA, Cause.SANDBOX_LOST),
        ([AGENT, VERIFY], Verdict(detail="changed", by_agent=True), Outcome.FAILED, None),
    ],
)
def test_who_wins_beside_a_disk_that_others_filled(
    phases: list[PhaseEvidence], verdict: Verdict | None, outcome: Outcome, cause: Cause | None
) -> None:
    found = classify(Evidence(phases, verdict, host_disk=FULL_DISK))
    assert (found.outcome, found.cause) == (outcome, cause)
    if cause is Cause.HOST_DISK:
        assert found.detail is not None
        assert found.detail.startswith(FULL_DISK)


def test_both_causes_stand_in_the_detail() -> None:
    harmless = classify(Evidence([agent(**KILLED), HARMLESS], NO_NETWORK))
    words = "could not resolve; kill(s) that ended no phase: 1 in agent, 1 in verify"
    assert harmless.detail == words
    missing = classify(Evidence([AGENT, HARMLESS], NO_TOOL))
    assert missing.detail == "killed during verification; it printed: curl: not found"
    late = classify(Evidence([AGENT, LATE], NO_NETWORK))
    assert late.detail == "the verifier ran into its deadline; it printed: could not resolve"


def test_every_cause_of_the_model_is_reachable_or_set_by_the_harness() -> None:
    reached = {case[5] for case in CASES} | {pair[4] for pair in PAIRS}
    reached -= {None}
    set_elsewhere = {
        Cause.HOST_DISK,
        Cause.IMAGE,
        Cause.ENGINE_AWAY,
        Cause.WORKER_LOST,
        Cause.REWARD_INVALID,
    }
    assert reached | set_elsewhere == set(Cause)


facts = st.builds(
    PhaseEvidence,
    phase=st.sampled_from(Phase),
    ending=st.sampled_from(Ending),
    exit_code=st.sampled_from([None, 0, 1, 137]),
    oom_kills=st.sampled_from([None, 0, 1, 5]),
    limit_reached=st.sampled_from([None, False, True]),
    error_cause=st.sampled_from([None, Cause.ENGINE, Cause.HARNESS, Cause.SANDBOX_LOST]),
)
evidence = st.builds(
    Evidence,
    phases=st.lists(facts, max_size=4, unique_by=lambda item: item.phase),
    verdict=st.sampled_from([None, PASSED, FAILED, NO_REWARD]),
    memory_is_capped=st.booleans(),
)


@given(evidence)
def test_any_evidence_has_one_outcome_with_a_fitting_cause(item: Evidence) -> None:
    found = classify(item)
    ooms = {Cause.ENDED_PHASE, Cause.VERIFIER, Cause.SURVIVED_THEN_FAILED}
    if found.outcome is Outcome.OOM:
        assert found.cause in ooms
    elif found.outcome is Outcome.INFRA_ERROR:
        assert found.cause is not None
        assert found.cause not in ooms
    else:
        assert found.cause is None


@given(evidence)
def test_a_pass_is_a_pass_and_nothing_else_is(item: Evidence) -> None:
    passed = item.verdict is not None and item.verdict.passed
    assert (classify(item).outcome is Outcome.PASSED) == passed


@given(evidence)
def test_an_uncapped_trial_is_never_an_oom_of_its_own(item: Evidence) -> None:
    uncapped = Evidence(item.phases, item.verdict, memory_is_capped=False)
    killed_by_policy = any(part.ending is Ending.OOM_POLICY for part in item.phases)
    if not killed_by_policy:
        assert classify(uncapped).outcome is not Outcome.OOM


@given(evidence)
def test_without_a_kill_there_is_no_oom(item: Evidence) -> None:
    killed = any(part.oom_kills or part.ending is Ending.OOM_POLICY for part in item.phases)
    if not killed:
        assert classify(item).outcome is not Outcome.OOM


def test_increase_is_unknown_where_a_reading_is() -> None:
    for before, after in product((None, 0, 2), repeat=2):
        expected = None if None in (before, after) else max(0, after - before)  # type: ignore[operator]
        assert increase(before, after) == expected
