#!/bin/bash
# The conformance suite on cgroup version 2, in the virtual machine of vm.sh.
#
#   conformance.sh RESULTS [AMOUNT [SUITE...]]
#
# Plays the scenarios as root on local and on Docker, and as an ordinary user with a delegated subtree
# (`systemd-run --user`) on local. The engines' results come back to the folder RESULTS, with the
# tests' logs. Exits 0 if every record was right.
#
# AMOUNT is quick (default; 5 to 10 minutes in software emulation), normal or full. SUITE is local,
# user, docker (default: these three) or kills (benchmarks/kills.py). INFRANOISE_REPEAT is how often
# races are played (quick: 1); INFRANOISE_ONLY chooses scenarios by words of their names, as pytest's
# -k does. DOCKER_HOST names an engine that has the tests' images
# (tests/engines/images.sh). PYTHON is a Python with pip (default python3). For vm.sh's own settings
# see there.
set -euo pipefail

[ $# -ge 1 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0" >&2 && exit 64; }
HERE=$(cd "$(dirname "$0")" && pwd)
ROOT=$(cd "$HERE/../.." && pwd)
RESULTS=$1
AMOUNT=${2:-quick}
REPEAT=${INFRANOISE_REPEAT:-$([ "$AMOUNT" = quick ] && echo 1 || echo 3)}
PYTHON=${PYTHON:-python3}
# What the suite imports; the guest's Python is Debian 12's.
REQUIREMENTS=('pytest>=8.4' 'docker>=7.1' 'requests>=2.26' 'psutil>=5.9')
GUEST_PYTHON=3.11
IMAGES=(busybox:infranoise-test)
[ "$AMOUNT" = quick ] || IMAGES+=(python:3.11-slim-bookworm)

payload=$(mktemp -d)
trap 'rm -rf "$payload"' EXIT

pack() {
    mkdir "$payload/source" "$payload/site"
    cp -a "$ROOT/pytest_infranoise" "$ROOT/tests" "$ROOT/benchmarks" "$ROOT/pyproject.toml" \
        "$ROOT/conftest.py" \
        "$payload/source/"
    find "$payload/source" -name __pycache__ -prune -exec rm -rf {} +
    # Unpacked here, since that takes minutes in software emulation; compiled if it can be.
    "$PYTHON" -m pip install -q --disable-pip-version-check --root-user-action=ignore \
        --target "$payload/site" --python-version "$GUEST_PYTHON" --implementation cp \
        --only-binary=:all: --no-compile "${REQUIREMENTS[@]}"
    if "$PYTHON" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$GUEST_PYTHON')"; then
        "$PYTHON" -m compileall -q -s "$payload" -p /payload --invalidation-mode unchecked-hash \
            "$payload/site" "$payload/source"
    fi
    docker save "${IMAGES[@]}" -o "$payload/images.tar"
    cp "$HERE/guest.sh" "$payload/"
}

pack
"$HERE/vm.sh" run "$payload" "$RESULTS" "sh guest.sh $AMOUNT $REPEAT '${INFRANOISE_ONLY:-}' ${*:3}"
