#!/bin/sh
# A Docker Engine of the tests' own, beside whatever else runs on the machine.
#
#   docker.sh start DIR   installs docker.io from Debian if there is no dockerd, starts one with data
#                         root, exec root, pid file and socket below DIR, waits until it answers and
#                         prints the line that points a shell at it (export DOCKER_HOST=...); so too
#                         where one was killed there
#   docker.sh stop DIR    ends that one, by its pid file, and removes what it left
#
# Needs root. On a machine without docker0 and Docker's rules, dockerd makes both, and leaves them
# behind when it stops. Where they are, another dockerd may have made them and need them: ours would
# flush that one's rules at its start, and with --bridge=none delete docker0. So it touches neither,
# but gets a bridge, an address range and four rules of its own, which are gone when it stops.
set -eu

usage() {
    echo "usage: docker.sh start|stop DIR" >&2
    exit 2
}

[ $# -eq 2 ] || usage
mkdir -p "$2"
DIR=$(cd "$2" && pwd -P)
SOCKET=unix://$DIR/docker.sock
NUMBER=$(printf %s "$DIR" | cksum | cut -d ' ' -f 1)
BRIDGE=rig$NUMBER # at most 13 characters; a network interface has 15
POOL=10.213.0.0/16 # of the bridge, and of further networks; not what a dockerd hands out by default

answers() { DOCKER_HOST=$SOCKET docker version >/dev/null 2>&1; }

lives() { [ -e "/proc/$1" ] && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }

pid_of() { # PROGRAM FILE
    # A stale pid file may name a stranger.
    pid=$(cat "$2" 2>/dev/null) || return 1
    lives "$pid" || return 1
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$1" ] || return 1
    echo "$pid"
}

running_pid() { pid_of dockerd "$DIR/docker.pid"; }
containerd_pid() { pid_of containerd "$DIR/exec/containerd/containerd.pid"; }

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

is_second() { ip link show docker0 >/dev/null 2>&1 || iptables -n -L DOCKER >/dev/null 2>&1; }

rules() { # -I or -D
    iptables "$1" FORWARD -s "$POOL" -m comment --comment "$DIR" -j ACCEPT &&
        iptables "$1" FORWARD -d "$POOL" -m comment --comment "$DIR" -j ACCEPT &&
        iptables -t nat "$1" POSTROUTING -s "$POOL" ! -d "$POOL" -m comment --comment "$DIR" -j MASQUERADE
}

free_subnet() { # the first three numbers of its addresses
    third=$((NUMBER % 256))
    tries=0
    while [ -n "$(ip -4 route show "10.213.$third.0/24")" ] && [ "$tries" -lt 256 ]; do
        tries=$((tries + 1))
        third=$(((third + 1) % 256))
    done
    echo "10.213.$third"
}

network_flags() {
    # A bridge that is there is what a killed one has left: it goes on with it.
    if ! ip link show "$BRIDGE" >/dev/null 2>&1; then
        is_second || return 0
        ip link add "$BRIDGE" type bridge
        ip addr add "$(free_subnet).1/24" dev "$BRIDGE"
        ip link set "$BRIDGE" up
        rules -I >&2
    fi
    echo "--iptables=false --bridge=$BRIDGE --default-address-pool base=$POOL,size=24"
}

remove_network() {
    while rules -D 2>/dev/null; do :; done
    ip link show "$BRIDGE" >/dev/null 2>&1 || return 0
    ip link del "$BRIDGE"
}

end() { # PID
    kill "$1" 2>/dev/null || return 0
    tries=0
    while lives "$1" && [ "$tries" -lt 60 ]; do
        tries=$((tries + 1))
        sleep 0.5
    done
    ! lives "$1" || kill -9 "$1"
}

start() {
    if running_pid >/dev/null && answers; then
        echo "export DOCKER_HOST=$SOCKET"
        return
    fi
    install_engine
    if ! running_pid >/dev/null; then
        # dockerd does not start where its pid file names any process, and waits in vain for the
        # containerd of one that was killed, or for a stranger that it takes for that.
        if pid=$(containerd_pid); then end "$pid"; fi
        rm -f "$DIR/docker.pid" "$DIR/exec/containerd/containerd.pid"
    fi
    # An engine that was started here before would remove the default bridge that it remembers,
    # whoever's that is by now: it must remember none.
    rm -f "$DIR/data/network/files/local-kv.db"
    flags=$(network_flags)
    # Debian starts its own service on install where there is an init; ours is apart from it.
    # shellcheck disable=SC2086 # flags
    setsid dockerd $flags --data-root "$DIR/data" --exec-root "$DIR/exec" --pidfile "$DIR/docker.pid" \
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
    # containerd outlives a dockerd that was killed.
    if pid=$(running_pid); then end "$pid"; fi
    if pid=$(containerd_pid); then end "$pid"; fi
    awk -v dir="$DIR/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r |
        while read -r mount; do umount -l "$mount"; done
    remove_network
    rm -f "$DIR/docker.pid" "$DIR/docker.sock"
}

case $1 in
    start) start ;;
    stop) stop ;;
    *) usage ;;
esac
