#!/bin/bash
# A virtual machine with cgroup version 2, systemd and a Docker Engine, for the tests.
#
#   vm.sh build                       the guest's kernel and root file system: Debian 12, made once,
#                                     kept in INFRANOISE_CACHE (1 to 3 minutes, about 2 GB)
#   vm.sh run PAYLOAD RESULTS CMD     builds what is missing, boots, copies the folder PAYLOAD to
#                                     /payload, runs CMD there with sh, and powers off; what the guest
#                                     leaves in /results comes back to the folder RESULTS; prints the
#                                     guest's output, exits with CMD's status (70: no end was seen)
#
# Environment:
#   INFRANOISE_CACHE   where the guest is kept (default ~/.cache/pytest-infranoise/images)
#   VM_MEMORY_MB       the guest's memory (3072)
#   VM_CPUS            its processors (2)
#   VM_TIMEOUT_S       when it is given up (1500)
#   VM_ACCEL           tcg (software emulation, works everywhere and is about 20 times slower; the
#                      default) or kvm (not inside machines that are virtual themselves)
#
# Needs root (debootstrap) and Debian's packages. The guest has no network, and nothing that it does to
# its root file system is kept.
set -euo pipefail

CACHE=${INFRANOISE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pytest-infranoise/images}
PACKAGES=(
    linux-image-cloud-amd64 initramfs-tools systemd systemd-sysv dbus dbus-user-session libpam-systemd
    udev kmod iproute2 iptables procps util-linux e2fsprogs
    docker.io busybox-static python3 ca-certificates
)
GUEST_MB=6144
DISK_MB=2048

usage() {
    echo "usage: vm.sh build | vm.sh run PAYLOAD RESULTS COMMAND" >&2
    exit 64
}

# --- build ---------------------------------------------------------------------------------------

install_tools() {
    local missing=()
    command -v debootstrap >/dev/null || missing+=(debootstrap)
    command -v qemu-system-x86_64 >/dev/null || missing+=(qemu-system-x86)
    command -v mke2fs >/dev/null || missing+=(e2fsprogs)
    [ "${#missing[@]}" -gt 0 ] || return 0
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2 ||
        { apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2; }
}

build() {
    [ ! -e "$GUEST/root.img" ] || return 0
    install_tools
    mkdir -p "$CACHE"
    # Into a temporary folder first: a half-made guest must not pass for a cached one.
    local partial
    partial=$(mktemp -d "$CACHE/partial-vm.XXXXXX")
    # shellcheck disable=SC2064 # the folder of now
    trap "umount '$partial/tree/proc' 2>/dev/null || true; rm -rf --one-file-system '$partial'" EXIT
    make_root "$partial/tree" "$partial/build.log" || {
        tail -n 20 "$partial/build.log" >&2
        return 1
    }
    cp "$partial"/tree/boot/vmlinuz-* "$partial/kernel"
    cp "$partial"/tree/boot/initrd.img-* "$partial/initrd"
    truncate -s "${GUEST_MB}M" "$partial/root.img"
    mke2fs -q -F -t ext4 -d "$partial/tree" "$partial/root.img"
    rm -rf --one-file-system "$partial/tree"
    mv "$partial" "$GUEST"
    trap - EXIT
}

make_root() { # FOLDER LOG
    local root=$1
    debootstrap --variant=minbase bookworm "$root" >"$2" 2>&1
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d" # nothing is started while installing
    chmod 755 "$root" "$root/usr/sbin/policy-rc.d"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
    mount --bind /proc "$root/proc"
    DEBIAN_FRONTEND=noninteractive chroot "$root" \
        apt-get install -y -qq --no-install-recommends "${PACKAGES[@]}" >>"$2" 2>&1
    umount "$root/proc"
    rm -rf "$root/usr/sbin/policy-rc.d" "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    chroot "$root" useradd --create-home --shell /bin/sh tester
    mkdir -p "$root/var/lib/systemd/linger"
    : >"$root/var/lib/systemd/linger/tester" # its own systemd runs from the boot on
    write_service "$root"
}

write_service() {
    cat >"$1/usr/local/sbin/payload" <<'GUEST'
#!/bin/sh
exec >/dev/ttyS0 2>&1
mkdir -p /payload /results
chmod 777 /results
mount -o ro /dev/vdb /payload
systemctl start docker || echo "docker did not start"
cd /payload
echo "@@begin"
sh ./.vm-command
echo "@@status $?"
tar -C /results -cf /dev/vdc .
sync
poweroff -f
GUEST
    chmod 755 "$1/usr/local/sbin/payload"
    cat >"$1/etc/systemd/system/payload.service" <<'GUEST'
[Unit]
Description=The command that this machine was booted for
After=multi-user.target user@1000.service

[Service]
Type=oneshot
TimeoutStartSec=infinity
ExecStart=/usr/local/sbin/payload
GUEST
    ln -s ../payload.service "$1/etc/systemd/system/multi-user.target.wants/payload.service"
}

# The name changes with what is built, so that an old guest is never taken for a new one.
RECIPE=$({ printf '%s\n' "${PACKAGES[@]}" $GUEST_MB && declare -f make_root write_service; } | sha256sum)
GUEST=$CACHE/vm-${RECIPE:0:12}

# --- run -----------------------------------------------------------------------------------------

# Nothing in there needs protection from the rest, and the mitigations cost most when emulated.
KERNEL='root=/dev/vda rw console=ttyS0 quiet loglevel=3 apparmor=0 audit=0 mitigations=off'
CPU_kvm=host,-arch-capabilities # nested hypervisors refuse what that would set
CPU_tcg=max

run() { # PAYLOAD RESULTS COMMAND
    install_tools
    build
    local accel=${VM_ACCEL:-tcg} log status
    local cpu=CPU_$accel
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp -a "$1" "$work/payload"
    printf '%s\n' "$3" >"$work/payload/.vm-command"
    truncate -s "${DISK_MB}M" "$work/payload.img" "$work/results.img"
    mke2fs -q -F -t ext4 -d "$work/payload" "$work/payload.img"
    log=$work/serial.log
    timeout "${VM_TIMEOUT_S:-1500}" qemu-system-x86_64 -machine "accel=$accel" -cpu "${!cpu}" \
        -smp "${VM_CPUS:-2}" -m "${VM_MEMORY_MB:-3072}" -nographic -no-reboot -nic none \
        -kernel "$GUEST/kernel" -initrd "$GUEST/initrd" \
        -append "$KERNEL" \
        -drive "file=$GUEST/root.img,if=virtio,format=raw,snapshot=on" \
        -drive "file=$work/payload.img,if=virtio,format=raw" \
        -drive "file=$work/results.img,if=virtio,format=raw" \
        </dev/null 2>&1 | tee "$log" | plain | sed -u -n '/@@begin/,/@@status/p' || true
    status=$(plain <"$log" | grep -ao '@@status [0-9]*' | tail -n 1 || true)
    if [ -z "$status" ]; then
        echo "vm.sh: the guest did not finish; the end of its console:" >&2
        plain <"$log" | tail -n 30 >&2
        exit 70
    fi
    mkdir -p "$2"
    tar --no-same-owner -C "$2" -xf "$work/results.img"
    exit "${status##* }"
}

plain() { sed -u 's/\x1b\[[0-9;?]*[a-zA-Z]//g; s/\r//g'; }

case ${1:-} in
    build) build ;;
    run)
        [ $# -eq 4 ] || usage
        run "$2" "$3" "$4"
        ;;
    *) usage ;;
esac
