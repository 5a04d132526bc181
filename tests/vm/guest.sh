# Runs in the guest, from the payload folder: the conformance suite, as root and as an ordinary user.
# usage: guest.sh AMOUNT REPEAT ONLY [SUITE...]    ONLY: pytest's -k on top, or empty
export INFRANOISE_CONFORMANCE="$1" INFRANOISE_REPEAT="$2"
only=$3
shift 3
export INFRANOISE_CONFORMANCE_RESULTS=/results
export PYTHONPATH=/payload/site:/payload/source PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
export LANG=C.UTF-8 INFRANOISE_REQUIRE_DOCKER=1 INFRANOISE_REQUIRE_LOCAL=1

# Swap, so that it could be a way out of a limit if somebody left it open.
fallocate -l 256M /swap && chmod 600 /swap && mkswap -q /swap && swapon /swap

play() { # ENGINE: the suite on one engine, by its name in the tests' ids
    python3 -m pytest -q -rA --tb=line -p no:cacheprovider --durations=5 \
        -k "$1${only:+ and ($only)}" \
        /payload/source/tests/conformance
}

play_as_user() {
    export XDG_RUNTIME_DIR=/run/user/1000
    settings=$(env | grep -E '^(INFRANOISE|PYTHON|LANG)' | sed 's/^/--setenv=/')
    # shellcheck disable=SC2086 # one word per setting
    runuser -u tester -- systemd-run --user --quiet --wait --pipe --collect -p Delegate=yes \
        --working-directory=/tmp $settings sh -c "only='$only'
$definition
play local"
}
definition=$(sed -n '/^play() {/,/^}/p' guest.sh)

suite() { # NAME COMMAND...: shows its end, keeps its log
    name=$1
    shift
    echo "== $name, $(cut -d ' ' -f 1 /proc/uptime) s after the boot"
    "$@" >"/results/$name.log" 2>&1 || status=1
    grep -v '^PASSED' "/results/$name.log" | tail -n 40
}

status=0
case " ${*:-docker} " in *" docker "* | *" kills "*) docker load -q -i images.tar || status=1 ;; esac
for name in ${*:-local user docker}; do
    case $name in
        local) suite local play local ;;
        user) suite user play_as_user ;;
        docker) suite docker play docker ;;
        kills) suite kills python3 source/benchmarks/kills.py --amount quick --json /results/kills.json ;;
    esac
done
echo "== end, $(cut -d ' ' -f 1 /proc/uptime) s after the boot"
exit $status
