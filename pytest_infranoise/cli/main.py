"""Choosing a command, and what the user sees when it cannot do its work."""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from pytest_infranoise import __version__
from pytest_infranoise.cli.exits import Exit
from pytest_infranoise.errors import InfranoiseError, MarkedUsageError, UsageError
from pytest_infranoise.printable import printable

PROGRAM = "infranoise"

DESCRIPTION = """\
Read, plan and tidy up studies of infrastructure noise. The trials themselves are run by pytest, for
example: pytest example_tasks --infra-multipliers=1,3,uncapped -n 8"""

EPILOG = """\
exit codes:
  0    the command did what it was asked for
  1    it did, and the answer is no (doctor: no backend works; clean: something is left)
  2    interrupted (Ctrl-C)
  3    it failed for a reason outside its input (a full disk, a bug)
  4    a usage error: one line on stderr names what to change
  141  whoever read the output has gone (`| head`)

example:
  infranoise report .infranoise/2026-12-01T10-22-31Z-5f3a
"""


class Command(NamedTuple):
    """A command: the module that has `add_arguments` and `run`, and what it does."""

    module: str
    help: str


COMMANDS: Mapping[str, Command] = {
    "report": Command("report", "print what a study shows: table, contrasts, verdict"),
    "compare": Command("compare", "is the lead of one entry larger than the noise?"),
    "calibrate": Command("calibrate", "which guarantee and kill threshold to publish per task"),
    "export": Command("export", "write a study's trials or its disclosure card as files"),
    "merge": Command("merge", "put the shards of a study together"),
    "plan": Command("plan", "how many samples a question needs, and what they cost"),
    "import": Command("importing", "make a study of somebody else's results"),
    "doctor": Command("doctor", "what a run would find on this host: engines, cgroups, budget"),
    "clean": Command("clean", "remove what dead runs left behind"),
}


class Parser(ArgumentParser):
    """Reports a mistake as the one line that every usage error is."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` instead of printing the usage and ending the process."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; a mistake in the input never is a traceback."""
    try:
        _keep_unencodable()
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except UsageError as error:
        return _complain(error, Exit.USAGE)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return Exit.CLOSED_PIPE
    except InfranoiseError as error:
        return _complain(error, Exit.FAILED)
    except OSError as error:
        _drop_output()
        return _complain(error, Exit.FAILED)
    except Exception:  # noqa: BLE001 - a bug: show where, under a code that means nothing else
        import traceback  # with the rest of what `--help` does without

        traceback.print_exc()
        return Exit.FAILED
    return code


def _run(arguments: list[str]) -> int:
    name = next((word for word in arguments if not word.startswith("-")), "")
    module: Any = None
    if name in COMMANDS:
        module = import_module(f"pytest_infranoise.cli.{COMMANDS[name].module}")
    try:
        parsed = _parser(name, module).parse_args(arguments)
    except SystemExit as end:  # after --help or --version
        return int(end.code or Exit.FINE)
    return int(module.run(parsed))


def _parser(chosen: str, module: Any) -> Parser:
    """Return the parser of all commands; only the chosen one's arguments are filled in."""
    parser = Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pytest-infranoise {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for name, command in COMMANDS.items():
        own = commands.add_parser(
            name,
            help=command.help,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if name == chosen:
            module.add_arguments(own)
    return parser


def _complain(error: Exception, code: Exit) -> int:
    text = str(error) or type(error).__name__
    parts = text.split("\n") if isinstance(error, MarkedUsageError) else [text]
    plain = map(printable, parts)
    lines = ["".join(char if char.isprintable() else " " for char in part) for part in plain]
    with suppress(OSError):
        print(f"{PROGRAM}: " + "\n".join(lines), file=sys.stderr)
    return code


def _keep_unencodable() -> None:
    """A name that the terminal cannot show is escaped rather than the end of the report."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _drop_output() -> None:
    """Let the interpreter's last flush go nowhere, since it would complain."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
