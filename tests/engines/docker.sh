#!/bin/sh
# A Docker Engine of the tests' own, beside whatever else runs on the machine.
#
#   docker.sh start DIR   installs docker.io from Debian if there is no dockerd, starts one with data
#                         root, exec root, pid file and socket below DIR, waits until it answers and
#                         prints the line that points a shell at it (export DOCKER_HOST=...)
#   docker.sh stop DIR    ends that one, by its pid file, and unmounts what it left
#
# Needs root. Uses the default bridge: a second dockerd beside another shares docker0.
set -eu

usage() {
    echo "usage: docker.sh start|stop DIR" >&2
    exit 2
}

[ $# -eq 2 ] || usage
mkdir -p "$2"
DIR=$(cd "$2" && pwd -P)
SOCKET=unix://$DIR/docker.sock

answers() { DOCKER_HOST=$SOCKET docker version >/dev/null 2>&1; }

running_pid() {
    # A stale pid file may name a stranger: only a dockerd is ours.
    pid=$(cat "$DIR/docker.pid" 2>/dev/null) || return 1
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] || return 1
    echo "$pid"
}

install_engine() {
    missing=
    command -v dockerd >/dev/null 2>&1 && command -v docker >/dev/null 2>&1 || missing=docker.io
    command -v iptables >/dev/null 2>&1 || missing="$missing iptables"
    [ -z "$missing" ] && return
    # shellcheck disable=SC2086 # two package names
    apt-get install -y --no-install-recommends $missing >&2 ||
        { apt-get update >&2 && apt-get install -y --no-install-recommends $missing >&2; }
}

start() {
    if running_pid >/dev/null && answers; then
        echo "export DOCKER_HOST=$SOCKET"
        return
    fi
    install_engine
    # Debian starts its own service on install where there is an init; ours is apart from it.
    setsid dockerd --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/docker.pid" \
        -H "$SOCKET" >"$DIR/dockerd.log" 2>&1 </dev/null &
    tries=0
    until answers; do
        tries=$((tries + 1))
        if [ "$tries" -ge 120 ]; then
            echo "docker.sh: dockerd did not answer within 60 s; the end of $DIR/dockerd.log:" >&2
            tail -n 20 "$DIR/dockerd.log" >&2
            exit 1
        fi
        sleep 0.5
    done
    echo "export DOCKER_HOST=$SOCKET"
}

stop() {
    pid=$(running_pid) || return 0
    kill "$pid"
    tries=0
    while [ -e "/proc/$pid" ] && [ "$tries" -lt 60 ]; do
        tries=$((tries + 1))
        sleep 0.5
    done
    [ ! -e "/proc/$pid" ] || kill -9 "$pid"
    awk -v dir="$DIR/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r |
        while read -r mount; do umount -l "$mount"; done
    rm -f "$DIR/docker.pid" "$DIR/docker.sock"
}

case $1 in
    start) start ;;
    stop) stop ;;
    *) usage ;;
esac
