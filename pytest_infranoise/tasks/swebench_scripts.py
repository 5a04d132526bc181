"""The shell scripts of an instance's trial: apply a patch, take the agent's diff, run the tests."""

import shlex
from collections.abc import Sequence

TESTBED = "/testbed"
REFUSED = "/logs/agent/patch-refused"
"""Where the applying script says why a patch does not apply."""
APPLIED = "/logs/agent/patch-applied"
"""That the tree holds a patch as it was given, so that no diff has to be taken of it."""
DIFF = "/logs/agent/model.patch"
"""What an agent's work is: the difference to the instance's commit."""

_APPLY = """#!/bin/sh
# Applies patch.diff, which lies beside this script, in each way in turn from a clean tree.
patch=$(dirname "$0")/patch.diff
rm -f {refused}
: >{applied} || exit
[ -s "$patch" ] || {{ echo 'empty patch'; exit 0; }}
cd {testbed} || exit
clean() {{ git checkout -q -- . && git clean -fdq; }}
{ways}
git apply --check --reverse "$patch" 2>/dev/null && exit 0
clean
git apply --check "$patch" 2>{refused}
cat {refused}
exit 1
"""

_TEST = """# Runs the instance's own script on what the agent made of the repository.
# By the bash that runs this, for want of an interpreter line: PATH may be the agent's to fill.
refuse() {{ echo {marker}; cat "$1"; exit 1; }}
[ -s {refused} ] && refuse {refused}
if [ ! -e {applied} ]; then
    "${{BASH:-/bin/sh}}" /tests/take-diff.sh >/tmp/take-diff.txt 2>&1 || refuse /tmp/take-diff.txt
fi
exec "${{BASH:-bash}}" /tests/eval.sh
"""

_TAKE_DIFF = """#!/bin/sh
# Takes the difference to the instance's commit, and makes the tree that commit and nothing else.
cd {testbed} || exit
base={commit}
git cat-file -e "$base^{{commit}}" 2>/dev/null || base=HEAD
git add -A && git diff --binary --cached "$base" >{diff} || exit
git reset -q --hard "$base" && git clean -fdq || exit
[ -s {diff} ] || exit 0
git apply --whitespace=nowarn {diff}
"""


def apply_script(commands: Sequence[str]) -> str:
    """Return the script that applies `patch.diff`; each command is followed by the patch's path."""
    ways = "\nclean\n".join(f'{command} "$patch" && exit 0' for command in commands)
    return _APPLY.format(refused=REFUSED, applied=APPLIED, testbed=TESTBED, ways=ways)


def verification_files(eval_script: str, base_commit: str, marker: str) -> dict[str, str]:
    """Return the texts that verification puts into `/tests`, by file name.

    `marker` is the line that says in the log that a patch did not apply.
    """
    return {
        "test.sh": _TEST.format(marker=shlex.quote(marker), refused=REFUSED, applied=APPLIED),
        "take-diff.sh": _TAKE_DIFF.format(
            testbed=TESTBED, commit=shlex.quote(base_commit), diff=DIFF
        ),
        "eval.sh": eval_script,
    }
