"""What a report says beside the outcomes: attempts in no rate, overruns, what agents have used."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pytest_infranoise.analysis.figures import plural
from pytest_infranoise.model.outcome import Cause
from pytest_infranoise.model.usage import UsageTotals
from pytest_infranoise.report.model import Line, one_line
from pytest_infranoise.study.accounts import Accounts

_NAMED = 5
_UNMEASURED_WORDS = {
    Cause.MODEL_API: "refused by the model's provider",
    Cause.ENGINE_AWAY: "lost while the engine was away",
}


def account_lines(accounts: Accounts, *, can_resume: bool = True) -> Iterator[Line]:
    """Yield a line for each that has anything to say; an imported study cannot be resumed."""
    for cause, words in _UNMEASURED_WORDS.items():
        if accounts.attempts(cause):
            yield Line(words + _unmeasured_words(accounts, cause, can_resume=can_resume), "warn")
    if accounts.overruns:
        yield Line(_overrun_words(accounts.overruns), "warn")
    if accounts.usage.reported:
        yield Line(usage_words(accounts.usage))
        yield from _models(accounts.usage)


def accounts_json(accounts: Accounts) -> dict[str, Any]:
    """Return the same as builtins; `unmeasured` are trials (task, parameter set, sample)."""
    return {
        "refused_attempts": accounts.attempts(Cause.MODEL_API),
        "refused_trials": accounts.trials(Cause.MODEL_API),
        "engine_away_attempts": accounts.attempts(Cause.ENGINE_AWAY),
        "engine_away_trials": accounts.trials(Cause.ENGINE_AWAY),
        "unmeasured": [list(trial) for trial in accounts.unmeasured],
        "tolerated_overruns": {
            name: {"trials": number, "seconds": seconds}
            for name, (number, seconds) in accounts.overruns.items()
        },
        "usage": accounts.usage.to_json(),
    }


def _unmeasured_words(accounts: Accounts, cause: Cause, *, can_resume: bool) -> str:
    words = (
        f": {plural(accounts.attempts(cause), 'attempt')} of "
        f"{plural(accounts.trials(cause), 'trial')}, in no rate"
    )
    left = accounts.left_by(cause)
    if not left:
        return f"{words}; each was tried again and measured"
    named = [f"{one_line(task, 60)} {name}-s{sample}" for task, name, sample in left[:_NAMED]]
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    if not can_resume:
        return f"{words}; not measured: {', '.join(named)}{more}"
    return f"{words}; not measured yet: {', '.join(named)}{more} (--infra-resume tries them again)"


def _overrun_words(overruns: Mapping[str, tuple[int, float]]) -> str:
    parts = [
        f"{plural(number, 'trial')} at {one_line(name, 60)} ({seconds:.1f} s in all)"
        for name, (number, seconds) in overruns.items()
    ]
    return f"above the kill threshold and tolerated: {', '.join(parts)}"


def usage_words(usage: UsageTotals) -> str:
    """Return the sums with how many attempts each is known of."""
    parts = [
        _part(usage, "cost_usd", dollars),
        _part(usage, "input_tokens", lambda value: f"{value:,.0f} input tokens"),
        _part(usage, "output_tokens", lambda value: f"{value:,.0f} output tokens"),
        _part(usage, "model_seconds", lambda value: f"{value:,.0f} s waiting for the model"),
        _part(usage, "retries", lambda value: plural(int(value), "repeated request")),
    ]
    known = [part for part in parts if part is not None]
    return "agents report: " + (", ".join(known) or "neither cost nor tokens nor time")


def dollars(value: float) -> str:
    """Return an amount with as many digits as say something of it."""
    return f"{value:.2f} USD" if value >= 0.1 or not value else f"{value:.4f} USD"


def _part(usage: UsageTotals, name: str, write: Callable[[float], str]) -> str | None:
    value, known = usage.sums.get(name), usage.known.get(name, 0)
    if value is None:
        return None
    of = "" if known == usage.attempts else f" (known of {known} of {usage.attempts} attempts)"
    return write(value) + of


def _models(usage: UsageTotals) -> Iterator[Line]:
    """Name the models where there was more than one: outcomes may come from any of them."""
    models = usage.texts.get("model", [])
    versions = usage.texts.get("agent_version", [])
    for what, found in (("models", models), ("agent versions", versions)):
        if len(found) > 1:
            shown = ", ".join(one_line(text, 40) for text in found[:_NAMED])
            yield Line(f"agents report {len(found)} different {what}: {shown}", "warn")
