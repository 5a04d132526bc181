#!/bin/bash
set -euo pipefail

# Looks for the tests first, as an agent might: what it finds is what the task's tests check.
{
    find / -xdev \( -name test_outputs.py -o -name test.sh \) -not -path '/proc/*' 2>/dev/null || true
    grep -rl 'NEVER_SEEN_BY_THE_AGENT' /app /tests /logs /mnt /tmp /solution/.. --include='*.py' -s || true
    tr '\0' '\n' </proc/self/mountinfo | grep -i terminal_bench || true
} | sort -u >/app/found.txt
echo ready >/app/state.txt
