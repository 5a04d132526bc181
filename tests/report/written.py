"""Studies as written reports see them, and the eyes of a browser for what came out."""

from typing import Any

import html5lib

from pytest_infranoise.analysis.gate_grammar import parse_gate
from pytest_infranoise.report.gates import judge_view
from pytest_infranoise.report.page import Page, make_page
from pytest_infranoise.report.view import StudyView, view_records

MIB = 1024**2
SETS = ("1x", "3x", "uncapped")
_FACTORS = {"1x": 1.0, "1.5x": 1.5, "2x": 2.0, "3x": 3.0, "5x": 5.0, "uncapped": None}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "\x1b[31;1mred\x1b[0m\x1b]0;owned\x07",
    "\u202egnp.exe\u202c and \u2066iso",
    "[click](javascript:alert(1)) @everyone #1 `code` | pipe | </details>",
    "</style></svg></title></pre><iframe src=//evil.example>",
    "{{7*7}} ${7*7} <%= 7*7 %>",
    "https://evil.example/phish www.evil.example a@evil.example",
    "\ud800lone",
    "&lt;b&gt; &amp; &#60;",
    "nul\x00and\r\nnewline\ttab",
    "- item\n1. item ~~gone~~ **bold** _it_ <!-- no -->",
)
"""Names and outputs of somebody who wants to be more than text."""


def a_manifest(tasks: Any = ("calm", "hungry"), sets: Any = SETS, **values: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "study": "2026-12-01T10-22-31Z-5f3a",
        "started_at": "2026-12-01T10:22:31+00:00",
        "ended_at": "2026-12-01T11:00:00+00:00",
        "command_line": ["pytest", "bench", "--infra-multipliers=1,3,uncapped"],
        "agent": {"name": "coder", "version": "2.1"},
        "backend": {"backend": "docker", "engine": "docker 20", "cgroup_version": 2,
                    "enforcement": "hard limit"},
        "order": "interleaved",
        "baseline": sets[0],
        "parameter_sets": [
            {"id": name, "memory_multiplier": _FACTORS[name], "cpu_multiplier": _FACTORS[name],
             "timeout_multiplier": 1.0} if name in _FACTORS else {"id": name}
            for name in sets
        ],
        "tasks": [{"name": name} for name in tasks],
        "equal_sets": [],
        "seed": 7,
        "software": {"python": "3.12", "pytest_infranoise": "0.1.0"},
        **values,
    }  # fmt: skip


def a_record(task: str, name: str, sample: int, outcome: str, **values: Any) -> dict[str, Any]:
    """A record as the journal has it; time passes with the samples."""
    limit = _FACTORS.get(name)
    return {
        "study": "s", "task": task, "parameter_set": name, "sample": sample, "attempt": 1,
        "block": sample, "position": 0, "outcome": outcome,
        "cause": "ended_phase" if outcome == "oom" else None,
        "detail": "killed in agent" if outcome == "oom" else None,
        "oom_kills": int(outcome == "oom"),
        "memory_limit_bytes": None if limit is None else int(64 * MIB * limit),
        "memory_peak_bytes": 48 * MIB, "wall_seconds": 3.0,
        "cpu_periods": None, "throttled_periods": None,
        "started_at": f"2026-12-01T10:{sample % 60:02}:00+00:00",
        "phases": [{"phase": "agent", "exit_code": 137, "output": "Killed\n"}],
        **values,
    }  # fmt: skip


def some_records(tasks: Any = ("calm", "hungry"), sets: Any = SETS, samples: int = 4) -> Any:
    """The last task is killed in the first set and passes in the others."""
    return [
        a_record(task, name, sample, "oom" if task == tasks[-1] and name == sets[0] else "passed")
        for task in tasks
        for name in sets
        for sample in range(1, samples + 1)
    ]


def a_view(records: Any = None, manifest: Any = None, **options: Any) -> StudyView:
    return view_records(
        some_records() if records is None else records, manifest or a_manifest(), **options
    )


def a_page(records: Any = None, manifest: Any = None, gates: Any = (), **options: Any) -> Page:
    given = some_records() if records is None else records
    view = a_view(given, manifest, **options)
    judged = judge_view(view, [parse_gate(text, where="--gate") for text in gates])
    return make_page(view, given, gates=judged)


def parsed(text: str) -> Any:
    """Return the tree that a browser would make of a document, names without their space."""
    return html5lib.parse(text, namespaceHTMLElements=False)


def tag_of(element: Any) -> str:
    """Return an element's name, whatever namespace the parser gave it."""
    return str(element.tag).rpartition("}")[2]


def all_text(tree: Any) -> str:
    return "".join(tree.itertext())
