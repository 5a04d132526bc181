"""Which lines prove that tests never ran, and which do not."""

import pytest

from pytest_infranoise.trial.bootstrap import (
    MAX_LINE_CHARACTERS,
    RUNS,
    SYMPTOMS,
    Proof,
    asks_for_ctrf,
    proof_of_failed_bootstrap,
)
from pytest_infranoise.trial.network import fetches

SHOWN = [
    ("host unknown to curl", "curl: (6) Could not resolve host: astral.sh"),
    ("host unknown to curl", "curl: (5) Could not resolve proxy: proxy.company.com"),
    ("host unknown to wget", "wget: unable to resolve host address ‘astral.sh’"),
    ("host unknown to wget", "wget: bad address 'repo.company.com'"),
    ("download failed in curl", "curl: (28) SSL connection timeout"),
    ("download failed in curl", "curl: (7) Failed to connect to astral.sh port 443 after 3 ms"),
    (
        "certificate unknown to curl",
        "curl: (60) SSL certificate problem: unable to get local issuer",
    ),
    ("server failed curl", "curl: (22) The requested URL returned error: 503"),
    ("server failed curl", "curl: (22) The requested URL returned error: 429"),
    ("download refused to curl", "curl: (22) The requested URL returned error: 403"),
    ("runner not found", "/tests/test.sh: line 12: uvx: command not found"),
    ("runner not found", "/tests/test.sh: line 4: curl: command not found"),
    ("runner not found", "/tests/test.sh: 9: uvx: not found"),
    ("runner not found", "sh: pytest: not found"),
    ("runner not found", "bash: pip3: command not found"),
    ("runner not found", "zsh: command not found: uv"),
    (
        "runner not there",
        "/tests/test.sh: line 9: /opt/agent/.local/bin/uvx: No such file or directory",
    ),
    ("runner not there", "env: ‘uvx’: No such file or directory"),
    (
        "uv not installed",
        "/tests/test.sh: line 7: /opt/agent/.local/bin/env: No such file or directory",
    ),
    (
        "uv not installed",
        "/tests/test.sh: .: line 7: can't open '/opt/agent/.local/bin/env': No such file",
    ),
    ("runner not importable", "/usr/bin/python3: No module named pytest"),
    ("runner not importable", "ModuleNotFoundError: No module named 'pytest'"),
    (
        "package index out of reach",
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<x>: "
        "Failed to establish a new connection: [Errno 101] Network is unreachable')'",
    ),
    (
        "package index silent",
        "WARNING: Retrying after connection broken by 'ConnectTimeoutError(<pip._vendor>, 'x')'",
    ),
    (
        "package index silent",
        "ReadTimeoutError(\"HTTPSConnectionPool(host='repo.company.com'): Read timed out. pool\")",
    ),
    (
        "no package from the index",
        "ERROR: Could not find a version that satisfies the requirement pytest==8.4.1 (from none)",
    ),
    ("no package from the index", "ERROR: No matching distribution found for pytest==8.4.1"),
    ("uv cannot fetch", "error: Failed to fetch: `https://repo.company.com/simple/pytest/`"),
    ("uv cannot fetch", "× Failed to download `pytest==8.4.1`"),
    (
        "uv cannot connect",
        "Caused by: error sending request for url (https://repo.company.com/simple/x/)",
    ),
    ("uv has no Python", "error: No interpreter found for Python 3.13 in managed installations"),
    ("uv has no Python", "error: No download found for request: cpython-3.13-linux-x86_64-musl"),
    ("name service", "gaierror: [Errno -3] Temporary failure in name resolution"),
    ("name service", "W: Failed: Temporary failure resolving 'archive.company.com'"),
    ("apt cannot fetch", "E: Failed to fetch http://archive.company.com/x  Connection failed"),
    ("apt cannot fetch", "E: Unable to fetch some archives, maybe run apt-get update"),
    ("apt finds no runner", "E: Unable to locate package curl"),
    ("apk cannot fetch", "WARNING: fetching https://archive.company.com/x: temporary error"),
    ("apk cannot fetch", "ERROR: unable to select packages:"),
    ("npm cannot fetch", "npm error code EAI_AGAIN"),
    ("npm cannot fetch", "npm ERR! code ENOTFOUND"),
    (
        "certificate refused",
        "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] x') HTTPSConnectionPool(host='pip')",
    ),
]

NETWORK_LINES = [
    ("download failed in wget", "wget: can't connect to remote host (151.101.0.223): timed out"),
    ("download failed in wget", "wget: server returned error: HTTP/1.1 503 Service Unavailable"),
    (
        "download failed in wget",
        "Connecting to pkgs.net (pkgs.net)|151.101.0.223|:443... failed: Connection refused.",
    ),
    ("download failed in wget", "2026-01-01 10:00:00 ERROR 502: Bad Gateway."),
    ("name service", "curl: (6) getaddrinfo() failed: EAI_AGAIN"),
    ("name service", "<urlopen error [Errno -3] Lookup timed out>"),
    (
        "name service, in other languages",
        "socket.gaierror: Temporärer Fehler bei der Namensauflösung",
    ),
    (
        "name service, in other languages",
        "W: Temporärer Fehler beim Auflösen von »deb.company.com«",
    ),
    ("name service, in other languages", "Échec temporaire dans la résolution du nom"),
    ("name service, in other languages", "Fallo temporal al resolver «deb.company.com»"),
    (
        "host has no name",
        "NameResolutionError(\"<x>: Failed to resolve 'pkgs.net' ([Errno -2] Name or service not "
        'known)")',
    ),
    ("host has no name", "Error: getaddrinfo ENOTFOUND registry.pkgs.net"),
    (
        "host has no name",
        'go: module x: Get "https://proxy.golang.org/x": dial tcp: lookup proxy.golang.org: no '
        "such host",
    ),
    ("host has no name", "java.net.UnknownHostException: repo.maven.apache.org"),
    ("host has no name", "ssh: Could not resolve hostname github.com: Name does not resolve"),
    ("resolver failed", "dns error: failed to lookup address information: Name does not resolve"),
    (
        "no route",
        "E: Failed to fetch http://deb.company.com/x  Cannot initiate the connection to "
        "deb.company.com:80 (2a04:4e42::644). - connect (101: Network is unreachable)",
    ),
    ("no route", "connect ENETUNREACH 2606:4700::6810:323:443"),
    (
        "package index failed",
        "ERROR: HTTP error 503 while getting https://files.company.com/pytest.whl",
    ),
    ("uv cannot connect", "Caused by: HTTP status server error (503 Service Unavailable) for url"),
    (
        "apt cannot connect",
        "E: Failed to fetch http://deb.company.com/x  503  Service Unavailable [IP: 1.2.3.4 80]",
    ),
    ("apt cannot connect", "Err:1 http://deb.company.com stable InRelease Connection timed out"),
    ("apk cannot connect", "WARNING: fetching https://dl.company.com/x: DNS: transient error"),
    ("dnf cannot connect", "Curl error (28): Timeout was reached for https://mirror.company.com/x"),
    ("npm cannot fetch", "npm error code E503"),
    ("npm cannot fetch", "npm error code ECONNREFUSED"),
    (
        "node cannot connect",
        "error https://registry.company.com/x: connect ETIMEDOUT 104.16.0.35:443",
    ),
    (
        "git cannot connect",
        "fatal: unable to access 'https://github.com/a/b/': Failed to connect to github.com port "
        "443: Connection timed out",
    ),
    ("git cannot connect", "ssh: connect to host github.com port 22: Connection refused"),
    ("cargo cannot connect", "[28] Timeout was reached (failed to download any data in 30s)"),
    ("go cannot connect", "dial tcp [2607:f8b0::11]:443: connect: connection refused"),
    ("go cannot connect", 'Get "https://x.com": dial tcp 142.250.1.1:443: i/o timeout'),
    ("conda cannot connect", "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://x.com>"),
    ("conda cannot connect", "Download error (28) Timeout was reached [https://conda.company.com]"),
    (
        "Java cannot connect",
        "Could not transfer artifact a:b:pom:1 from/to central (https://repo.company.com): Connect "
        "to repo.company.com:443 failed",
    ),
]
"""Lines that prove that it was the network that failed."""

NO_PROOF = [
    "",
    "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused",
    "curl: (7) Failed to connect to 127.0.0.1 port 80: Connection refused",
    "curl: (7) Failed to connect to backend port 80: Connection refused",
    "curl: (6) Could not resolve host: backend",
    "curl: (6) Could not resolve host: shop.example",
    "curl: (6) Could not resolve host: git.local",
    "wget: bad address 'shop.test'",
    "curl: (22) The requested URL returned error: 404",
    "/tests/test.sh: line 3: nginx: command not found",
    "/tests/test.sh: line 3: mypytest: command not found",
    "cat: /app/answer.txt: No such file or directory",
    "/app/run: line 1: /app/uv.lock: No such file or directory",
    "ModuleNotFoundError: No module named 'pytest_django'",
    "ModuleNotFoundError: No module named 'solution'",
    "ERROR: No matching distribution found for tensorflow==1.15",
    "E: Unable to locate package nginx",
    "Failed to fetch the answer",
    "ConnectionError: HTTPConnectionPool(host='localhost', port=8000): Failed to establish a new "
    "connection: [Errno 111] Connection refused",
    "Error: connect ECONNREFUSED ::1:8080",
    "dial tcp [::1]:8080: connect: connection refused",
    "fatal: unable to access 'http://git.local/a/': Could not resolve host: git.local",
    "java.net.UnknownHostException: backend",
    "wget: can't connect to remote host (127.0.0.1): Connection refused",
    "expected 3, got 4",
]

RAN = [
    ("pytest began", "============================= test session starts ==============="),
    (
        "pytest ended",
        "========================= 1 failed, 2 passed in 0.12s =========================",
    ),
    ("pytest ended quietly", "1 failed, 2 passed in 0.12s"),
    ("pytest ended quietly", "no tests ran in 0.01s"),
    ("pytest refused", "ImportError while loading conftest '/app/conftest.py'."),
    ("unittest ended", "Ran 3 tests in 0.001s"),
    ("TAP", "not ok 1 - the answer"),
    ("go test ended", "--- FAIL: TestAnswer (0.00s)"),
    ("go test ended", "FAIL    example.com/answer    0.004s"),
    ("cargo test ended", "test result: FAILED. 1 passed; 1 failed"),
]


@pytest.mark.parametrize(("name", "line"), SHOWN + NETWORK_LINES)
def test_each_symptom_finds_its_line(name: str, line: str) -> None:
    (symptom,) = [item for item in SYMPTOMS if item.name == name]
    assert symptom.pattern.search(line)
    found = proof_of_failed_bootstrap(f"Get:1 index\n  {line}\nbye\n")
    assert found is not None
    assert found.line == line.strip()


@pytest.mark.parametrize("line", NO_PROOF)
def test_what_an_agent_may_be_to_blame_for_is_no_proof(line: str) -> None:
    assert proof_of_failed_bootstrap(f"before\n{line}\nafter\n") is None


@pytest.mark.parametrize(("name", "line"), RAN)
def test_a_runner_that_ran_overrules_every_symptom(name: str, line: str) -> None:
    (sign,) = [item for item in RUNS if item.name == name]
    assert sign.pattern.search(line)
    output = f"curl: (6) Could not resolve host: astral.sh\n{line}\n"
    assert proof_of_failed_bootstrap(output, asks_for_ctrf=True) is None


def test_every_row_of_both_tables_has_a_test() -> None:
    assert {name for name, _ in SHOWN + NETWORK_LINES} == {item.name for item in SYMPTOMS}
    assert {name for name, _ in RAN} == {item.name for item in RUNS}


def test_a_missing_ctrf_is_proof_only_where_it_was_asked_for() -> None:
    assert proof_of_failed_bootstrap("Segmentation fault\n") is None
    assert proof_of_failed_bootstrap("Segmentation fault\n", asks_for_ctrf=True) == Proof(
        "test.sh asks for ctrf.json, and none was written; its last line of output: "
        "Segmentation fault"
    )
    found = proof_of_failed_bootstrap("", asks_for_ctrf=True)
    assert found is not None
    assert found.line.endswith(": nothing")


def test_a_written_ctrf_overrules_every_symptom() -> None:
    output = "/tests/test.sh: line 4: curl: command not found\n"
    assert proof_of_failed_bootstrap(output, asks_for_ctrf=True, has_ctrf=True) is None


def test_the_first_proving_line_is_the_cause_and_bounded() -> None:
    first = "curl: (6) Could not resolve host: astral.sh " + "x" * 1000
    output = f"{first}\nuvx: command not found\n"
    assert proof_of_failed_bootstrap(output) == Proof(first[:MAX_LINE_CHARACTERS], is_network=True)


@pytest.mark.parametrize("line", [line for _, line in NETWORK_LINES])
def test_a_failed_network_is_told_from_a_missing_tool(line: str) -> None:
    missing = "/tests/test.sh: line 4: curl: command not found"
    assert proof_of_failed_bootstrap(f"{missing}\n{line}\n") == Proof(line, is_network=True)
    assert proof_of_failed_bootstrap(f"{missing}\nbye\n") == Proof(missing)


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('<x>: "
        "Failed to establish a new connection: [Errno 101] Network is unreachable')'",
        "warning: spurious network error (3 tries remaining): [6] Couldn't resolve host name",
    ],
)
def test_a_try_that_may_have_succeeded_later_is_not_the_networks_failure(line: str) -> None:
    missing = "/tests/test.sh: line 4: pytest: command not found"
    found = proof_of_failed_bootstrap(f"{line}\nKilled\n{missing}\n")
    assert found is not None
    assert not found.is_network
    gave_up = "ERROR: Could not find a version that satisfies pytest (from versions: none)"
    assert proof_of_failed_bootstrap(f"{line}\n{gave_up}\n") == Proof(line, is_network=True)


@pytest.mark.parametrize("line", [line for _, line in NETWORK_LINES])
def test_tests_that_fetch_nothing_cannot_blame_the_network(line: str) -> None:
    found = proof_of_failed_bootstrap(f"{line}\n", fetches=False)
    assert found is None or not found.is_network


@pytest.mark.parametrize(
    ("script", "uses_network"),
    [
        ("#!/bin/sh\napt-get install -y curl\n", True),
        ("uvx --with pytest pytest /tests\n", True),
        ("exec 3</dev/tcp/host/80; cat https://x.com\n", True),
        ("# curl is not needed\n[ -e /app/ok ] && echo 1 >/logs/verifier/reward.txt\n", False),
        ("python3 /app/solution.py | grep -q 42\n", False),
        ("python3 -m pip install pytest\n", True),
    ],
)
def test_whether_a_script_can_use_the_network(script: str, uses_network: bool) -> None:
    assert fetches(script) is uses_network


@pytest.mark.parametrize(
    ("script", "asks"),
    [
        ("uvx pytest --ctrf /logs/verifier/ctrf.json /tests\n", True),
        ("# writes ctrf.json\n  # ctrf.json\necho 0\n", False),
        ("echo 0 >/logs/verifier/reward.txt\n", False),
        ("", False),
    ],
)
def test_whether_a_script_asks_for_ctrf(script: str, asks: bool) -> None:
    assert asks_for_ctrf(script) is asks
