"""All scenarios, in the table's order."""

import endings
import kills
import methods
import pairs
from scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *kills.SCENARIOS,
    *endings.SCENARIOS,
    *pairs.SCENARIOS,
    *methods.SCENARIOS,
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
assert len(BY_NAME) == len(SCENARIOS), "two scenarios have one name"
