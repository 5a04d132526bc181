#!/bin/sh
# Makes the images that the tests and example_tasks need, without any image registry.
#
#   images.sh            both images, into the engine that `docker` talks to (DOCKER_HOST)
#   images.sh busybox    busybox:infranoise-test alone (2 MB, instant)
#   images.sh python     python:3.11-slim-bookworm alone (Debian bookworm's own Python 3.11)
#
# An image that is there already is left alone, so a real python:3.11-slim-bookworm is never
# shadowed. INFRANOISE_ROOTFS names a debootstrapped folder to reuse; without it one is made
# (0.5 to 2 minutes) and kept in INFRANOISE_CACHE (default ~/.cache/pytest-infranoise/images).
# Needs root and Debian's packages, for debootstrap and busybox-static.
set -eu

BUSYBOX=busybox:infranoise-test
PYTHON=python:3.11-slim-bookworm
CACHE=${INFRANOISE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pytest-infranoise/images}
SEARCH_PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

present() { docker image inspect "$1" >/dev/null 2>&1; }

install() {
    command -v "$1" >/dev/null 2>&1 && return
    apt-get install -y --no-install-recommends "$2" >&2 ||
        { apt-get update >&2 && apt-get install -y --no-install-recommends "$2" >&2; }
}

static_busybox() {
    # Only a static one runs in an empty root; the package busybox-static gives it.
    if ! command -v busybox >/dev/null 2>&1 || ldd "$(command -v busybox)" >/dev/null 2>&1; then
        apt-get install -y --no-install-recommends busybox-static >&2
        hash -r
    fi
    readlink -f "$(command -v busybox)"
}

make_busybox() {
    present "$BUSYBOX" && return
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    mkdir -p "$root/bin" "$root/etc" "$root/root" "$root/tmp"
    chmod 1777 "$root/tmp"
    cp "$(static_busybox)" "$root/bin/busybox"
    for applet in $("$root/bin/busybox" --list); do
        [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
    done
    printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n' >"$root/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
    tar -C "$root" -c . | docker import -c "ENV PATH=$SEARCH_PATH" -c 'CMD ["sh"]' - "$BUSYBOX" >&2
    rm -rf "$root"
    trap - EXIT
}

bootstrap() {
    # Into a temporary folder first: a half-made rootfs must not pass for a cached one.
    install debootstrap debootstrap
    mkdir -p "$CACHE"
    partial=$(mktemp -d "$CACHE/partial.XXXXXX")
    trap 'rm -rf "$partial"' EXIT
    debootstrap --variant=minbase \
        --include=python3,python3-pip,python3-venv,ca-certificates bookworm "$partial" >&2
    rm -rf "$partial"/var/cache/apt/archives/*.deb "$partial"/var/lib/apt/lists/*
    chmod 755 "$partial"
    mv "$partial" "$CACHE/bookworm"
    trap - EXIT
}

make_python() {
    present "$PYTHON" && return
    rootfs=${INFRANOISE_ROOTFS:-$CACHE/bookworm}
    [ -x "$rootfs/usr/bin/python3" ] || bootstrap
    # `python` as in the stock image; appended to the stream, so that the rootfs stays as it is.
    links=$(mktemp -d)
    mkdir -p "$links/usr/local/bin"
    ln -s /usr/bin/python3 "$links/usr/local/bin/python"
    tar --numeric-owner -C "$rootfs" -c --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' \
        --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' \
        . -C "$links" ./usr/local/bin/python |
        docker import -c "ENV PATH=$SEARCH_PATH" -c 'ENV LANG=C.UTF-8' -c 'CMD ["python3"]' - "$PYTHON" >&2
    rm -rf "$links"
}

case ${1:-all} in
    busybox) make_busybox ;;
    python) make_python ;;
    all)
        make_busybox
        make_python
        ;;
    *)
        echo "usage: images.sh [busybox|python]" >&2
        exit 2
        ;;
esac
