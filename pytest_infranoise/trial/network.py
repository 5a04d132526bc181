"""What programs print when the network fails them: no name, no connection, a server's own error.

Such a line in the output of a verification is proof that the network failed, which no parameter set
has caused. A line that says that something is missing is none: the tool may be missing because its
own install was killed. The hosts of a task's own services count for nothing, since the agent may
have had to start or name them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symptom:
    """A kind of line in the output of `test.sh`; `pattern` is searched in one line at a time."""

    name: str
    pattern: re.Pattern[str]


def symptom(name: str, pattern: str) -> Symptom:
    """Return a symptom whose pattern ignores case."""
    return Symptom(name, re.compile(pattern, re.IGNORECASE))


_RESERVED = r"(?:local|localdomain|localhost|test|example|invalid|internal|lan)"
_LOOPBACK = r"(?:localhost|127(?:\.\d+){3}|(?<![\w:])::1\b|0\.0\.0\.0)"
ELSEWHERE = (
    rf"(?!.*(?:{_LOOPBACK}|\.{_RESERVED}\b"
    r"|host:? [\w-]+\s*$|to [\w-]+ port))"
)
"""Stands where the rest of a line must not speak of a host of the task's own."""
_NOT_OWN = rf"^(?!.*{_LOOPBACK})(?!.*\.{_RESERVED}\b)"
_HOST = r"(?:[\w-]+\.)+[a-z][\w-]+"
_UNABLE = (
    r"(?:could ?n[o']t resolve|failed to connect|could ?n[o']t connect|connection (?:refused|timed "
    r"out|reset)|timed out|timeout was reached|network is unreachable|no route to host"
    r"|recv failure|returned error: (?:429|5\d\d))"
)
_CURL_CODES = r"(?:5|6|7|16|18|28|35|52|55|56|92)"
_SERVER_ERROR = r"(?:429|50\d)"

NETWORK = (
    symptom("host unknown to curl", r"could not resolve (?=host|proxy)" + ELSEWHERE),
    symptom(
        "host unknown to wget",
        r"wget: (?:unable to resolve host address|bad address) [‘']?" + ELSEWHERE,
    ),
    symptom("download failed in curl", rf"^curl: \({_CURL_CODES}\) " + ELSEWHERE),
    symptom("server failed curl", rf"^curl: \(22\) .*error: {_SERVER_ERROR}"),
    symptom(
        "download failed in wget",
        rf"{_NOT_OWN}wget: (?:can't connect to remote host|download timed out"
        rf"|server returned error: HTTP/\S+ {_SERVER_ERROR})"
        rf"|{_NOT_OWN}Connecting to \S*{_HOST}.* failed: \S"
        rf"|^\S+ \S+ ERROR {_SERVER_ERROR}: ",
    ),
    symptom(
        "name service",
        r"Temporary failure in name resolution|Temporary failure resolving '"
        r"|EAI_AGAIN|gaierror: \[Errno -3\]|urlopen error \[Errno -3\]",
    ),
    symptom(
        "name service, in other languages",
        r"Temporärer Fehler (?:bei der Namensauflösung|beim Auflösen von)"
        r"|(?:Échec|Erreur) temporaire (?:dans la|de) résolution"
        r"|(?:Fallo|Error) temporal (?:en la resolución|al resolver)",
    ),
    symptom(
        "host has no name",
        rf"{_NOT_OWN}.*(?:Failed to resolve|Could not resolve|getaddrinfo ENOTFOUND|lookup"
        rf"|UnknownHostException:|Unknown host|ssh: Could not resolve hostname) ['\"]?{_HOST}",
    ),
    symptom("resolver failed", r"failed to lookup address information|\bdns error\b|^DNS lookup"),
    symptom("no route", r"Network is unreachable|\[Errno 101\]|\bENETUNREACH\b"),
    symptom(
        "package index out of reach",
        rf"{_NOT_OWN}.*Failed to establish a new connection: \[Errno -?\d+\]",
    ),
    symptom(
        "package index silent", rf"{_NOT_OWN}.*(?:ConnectTimeoutError\(|ReadTimeoutError\(.*pool)"
    ),
    symptom(
        "package index failed",
        rf"{_NOT_OWN}ERROR: (?:.*HTTP error {_SERVER_ERROR}|.*\b{_SERVER_ERROR} Server Error)"
        r"|ResponseError\('too many (?:429|5\d\d) error responses'\)",
    ),
    symptom(
        "uv cannot connect",
        rf"{_NOT_OWN}.*(?:error sending request for url|tcp connect error"
        rf"|HTTP status server error \({_SERVER_ERROR})",
    ),
    symptom(
        "apt cannot connect",
        rf"{_NOT_OWN}(?:E|W|Err:\d+)\b.*(?:Could not connect to|Cannot initiate the connection to"
        r"|Unable to connect to|Connection (?:failed|timed out|refused)"
        rf"|\b{_SERVER_ERROR} +[A-Z][a-z]+)",
    ),
    symptom(
        "apk cannot connect",
        r"^(?:ERROR|WARNING): (?:fetching|updating and opening) .*https?://.*: (?:temporary error"
        r"|DNS|network|could not connect|connection|operation timed out|host is unreachable"
        r"|remote server returned error)",
    ),
    symptom("dnf cannot connect", rf"{_NOT_OWN}.*Curl error \({_CURL_CODES}\):"),
    symptom(
        "npm cannot fetch",
        r"^npm (?:ERR!|error) (?:code )?(?:EAI_AGAIN|ENOTFOUND|ETIMEDOUT|ECONNRESET|ECONNREFUSED"
        rf"|EHOSTUNREACH|ENETUNREACH|ERR_SOCKET_TIMEOUT|E{_SERVER_ERROR})\b",
    ),
    symptom(
        "node cannot connect",
        rf"{_NOT_OWN}.*\b(?:registry\.\S+|https://\S+).*\b(?:ETIMEDOUT|ECONNREFUSED|ECONNRESET)\b",
    ),
    symptom(
        "git cannot connect",
        rf"{_NOT_OWN}fatal: unable to access '.*{_UNABLE}"
        rf"|{_NOT_OWN}ssh: connect to host {_HOST} port \d+: ",
    ),
    symptom("cargo cannot connect", rf"{_NOT_OWN}(?:.*: )?\[{_CURL_CODES}\] [A-Z]\w+"),
    symptom(
        "go cannot connect",
        rf"{_NOT_OWN}.*\bdial tcp \S+: (?:connect: (?:connection (?:refused|timed out)"
        r"|no route to host)|i/o timeout)",
    ),
    symptom(
        "conda cannot connect",
        rf"CondaHTTPError: HTTP (?:000 CONNECTION FAILED|{_SERVER_ERROR})"
        rf"|{_NOT_OWN}.*Download error \({_CURL_CODES}\)",
    ),
    symptom(
        "Java cannot connect",
        rf"{_NOT_OWN}.*(?:Could not transfer artifact|Could not (?:GET|HEAD) 'https?://).*"
        rf"(?:Connect(?:ion)? (?:to|timed out|refused|reset)|timed out|\b{_SERVER_ERROR}\b)",
    ),
)
"""Lines of programs that the network failed."""

RETRIES = re.compile(
    r"\bRetrying\b|\bWill retry\b|spurious network error|\btries (?:remaining|left)\b"
    r"|\b(?:retries|attempts) left\b|^Ign:\d+",
    re.IGNORECASE,
)
"""A line of a program that tries again, and may well succeed."""

GAVE_UP = re.compile(
    r"\(from versions: none\)|No matching distribution found|^E: (?:Failed to fetch|Unable to)"
    r"|^(?:error|fatal): .*(?:fetch|download|unable to access)",
    re.IGNORECASE,
)
"""A line that ends such tries."""

_FETCHES = re.compile(
    r"\b(?:curl|wget|apt|apt-get|aptitude|apk|dnf|yum|microdnf|pip3?|pipx|uvx?|poetry|pdm|conda"
    r"|mamba|micromamba|npm|npx|pnpm|yarn|git|ssh|cargo|rustup|go|gem|bundle|mvnw?|gradlew?"
    r"|sbt|composer|cpan|cpanm|nix|brew|install\.packages|Pkg\.add)\b|https?://"
)


def fetches(script: str) -> bool:
    """Whether the text of a script can use the network itself, comments left out."""
    lines = (line for line in script.splitlines() if not line.lstrip().startswith("#"))
    return any(_FETCHES.search(line) for line in lines)


def is_network_failure(line: str, later: Sequence[str]) -> bool:
    """Whether a line proves that the network failed for good; `later` are those that follow."""
    if not any(item.pattern.search(line) for item in NETWORK):
        return False
    return not RETRIES.search(line) or any(GAVE_UP.search(other) for other in later)
