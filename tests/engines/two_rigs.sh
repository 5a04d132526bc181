#!/bin/sh
# Engines of docker.sh beside one another, in a network of their own: whatever becomes of the second
# and the third, docker0 of the first and its rules stay as they are. For `unshare --net`.
#
#   unshare --net tests/engines/two_rigs.sh DIR
set -eu

RIG=$(dirname "$0")/docker.sh
DIR=$1
trap 'for name in first second third; do "$RIG" stop "$DIR/$name"; done' EXIT

network() {
    ip -o -4 addr show docker0
    ip -o link show docker0 | grep -c UP
    iptables -S
    iptables -t nat -S
}

check() {
    network >"$DIR/now"
    grep -v "$DIR" "$DIR/now" | diff "$DIR/before" - || { echo "changed after: $1"; exit 1; }
    DOCKER_HOST=unix://$DIR/first/docker.sock docker network inspect bridge >/dev/null
    echo "unchanged after: $1"
}

[ "$(ip -o link | grep -vc ' lo:')" -eq 0 ] || { echo "not in a network of its own"; exit 2; }
ip link set lo up
"$RIG" start "$DIR/first"
network >"$DIR/before"
"$RIG" start "$DIR/second"
check "the second's start"
kill -9 "$(cat "$DIR/second/docker.pid")"
# The number may be another process's by the time of the next start.
echo $$ >"$DIR/second/docker.pid"
"$RIG" start "$DIR/second"
check "the second's start after a kill"
"$RIG" start "$DIR/third"
"$RIG" stop "$DIR/second"
check "the second's stop beside a third"
kill -9 "$(cat "$DIR/third/docker.pid")"
"$RIG" stop "$DIR/third"
check "the stop of one that was killed"
network | diff "$DIR/before" - || { echo "rules are left"; exit 1; }
[ -z "$(ip -o link | grep ' rig')" ] || { echo "bridges are left"; exit 1; }
echo "all gone"
