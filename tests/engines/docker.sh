#!/bin/sh
# A Docker Engine of the tests' own, beside whatever else runs on the machine.
#
#   docker.sh start DIR   installs docker.io from Debian if there is no dockerd, starts one with data
#                         root, exec root, pid file and socket below DIR, waits until it answers and
#                         prints the line that points a shell at it (export DOCKER_HOST=...)
#   docker.sh stop DIR    ends that one, by its pid file, and unmounts what it left
#
# Needs root. Uses the default bridge. Where another dockerd has made docker0 and its rules (and may
# still run), both stay as they are: a second dockerd would flush the first one's chains at its start,
# and with --bridge=none delete docker0. Ours then takes its addresses from the network's upper half,
# those of further networks from a range that the first one does not hand out, and lets containers on
# these reach one another by one rule, which it takes back when it stops.
# Docker leaves docker0 and its rules behind when it stops; so does this.
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
    command -v ip >/dev/null 2>&1 || missing="$missing iproute2"
    [ -z "$missing" ] && return
    # shellcheck disable=SC2086 # package names
    apt-get install -y --no-install-recommends $missing >&2 ||
        { apt-get update >&2 && apt-get install -y --no-install-recommends $missing >&2; }
}

# For networks beside docker0 next to another dockerd, whose rules drop what it does not know.
POOL=10.213.0.0/16
let_networks_talk() { # -I or -D
    iptables "$1" FORWARD -s "$POOL" -d "$POOL" -m comment --comment "$DIR" -j ACCEPT
}

bridge_network() { ip -4 -o addr show dev docker0 2>/dev/null | awk '{ print $4; exit }'; }

upper_half() {
    # 172.17.0.1/16 -> 172.17.128.0/17
    IFS=./ read -r a b c d bits <<END
$1
END
    shift_by=$((32 - bits))
    start=$((((a << 24 | b << 16 | c << 8 | d) >> shift_by << shift_by) | 1 << (shift_by - 1)))
    echo "$((start >> 24)).$((start >> 16 & 255)).$((start >> 8 & 255)).$((start & 255))/$((bits + 1))"
}

network_flags() {
    network=$(bridge_network)
    # Without docker0 or without its rules, dockerd makes both by itself.
    iptables -t nat -S POSTROUTING 2>/dev/null | grep -q -- '! -o docker0 -j MASQUERADE' || return 0
    [ -n "$network" ] || return 0
    let_networks_talk -I >&2
    echo "--iptables=false --fixed-cidr=$(upper_half "$network")"
    echo "--default-address-pool base=$POOL,size=24"
}

start() {
    if running_pid >/dev/null && answers; then
        echo "export DOCKER_HOST=$SOCKET"
        return
    fi
    install_engine
    # An engine that was started here before would remove the default bridge that it remembers, and
    # with an address pool docker0 along with it, whoever's that is by now: it must remember none.
    rm -f "$DIR/data/network/files/local-kv.db"
    # Debian starts its own service on install where there is an init; ours is apart from it.
    # shellcheck disable=SC2046 # flags
    setsid dockerd $(network_flags) --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/docker.pid" \
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
    while let_networks_talk -D 2>/dev/null; do :; done
    rm -f "$DIR/docker.pid" "$DIR/docker.sock"
}

case $1 in
    start) start ;;
    stop) stop ;;
    *) usage ;;
esac
