"""The file of results that the table is made from."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playing import engine_facts, engine_key

from pytest_infranoise.backends.base import Backend


@dataclass
class Results:
    """What became of the scenarios on the engines of this session."""

    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    by_engine: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)

    def note(self, backend: Backend, scenario: str, **result: Any) -> None:
        """Keep one result; `status` is right, wrong or n/a."""
        key = engine_key(backend.info)
        self.facts[key] = engine_facts(backend.info)
        self.by_engine.setdefault(key, {})[scenario] = result

    def write(self, folder: Path) -> None:
        """Write a file per engine."""
        folder.mkdir(parents=True, exist_ok=True)
        for key, results in self.by_engine.items():
            content = {"engine": key, "facts": self.facts[key], "results": results}
            text = json.dumps(content, indent=1, sort_keys=True)
            (folder / f"{key}.json").write_text(text + "\n", encoding="utf-8")
