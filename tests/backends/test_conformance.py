"""What every backend's sandbox must do, the same scenarios on each.

The commands use nothing beyond a POSIX shell and what busybox has too.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from sandboxes import allocation, make_task

from pytest_infranoise.backends import base
from pytest_infranoise.backends.base import OUTPUT_TAIL_BYTES, Backend, Sandbox, StepResult
from pytest_infranoise.errors import SandboxError
from pytest_infranoise.model.outcome import Cause, Ending
from pytest_infranoise.units import MIB

HOG = "x=a; while :; do x=$x$x; done"
PROCESSES = """
for folder in /proc/[0-9]*; do
  pid=${folder#/proc/}
  [ "$pid" = $$ ] && continue
  read -r line 2>/dev/null <"$folder/stat" || continue
  name=${line#*(}; name=${name%)*}
  set -- ${line##*) }
  echo "$name $1"
done
"""


def shell(sandbox: Sandbox, script: str, **options: object) -> StepResult:
    return sandbox.exec(["sh", "-c", script], **options)  # type: ignore[arg-type]


def processes(sandbox: Sandbox) -> list[tuple[str, str]]:
    """(name, state) of every process in the sandbox but the one that looks."""
    lines = shell(sandbox, PROCESSES).output.splitlines()
    return [(line.rsplit(" ", 1)[0], line.rsplit(" ", 1)[1]) for line in lines]


def kills(sandbox: Sandbox) -> int:
    counters = sandbox.counters(expect_kill=True)
    assert counters.oom_kills is not None
    assert counters.source
    return counters.oom_kills


# --- exit codes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 137, 255])
def test_exit_code_is_the_commands_own(sandbox: Sandbox, code: int) -> None:
    result = shell(sandbox, f"exit {code}")
    assert (result.ending, result.exit_code) == (Ending.EXIT, code)
    assert result.wall_seconds > 0
    assert kills(sandbox) == 0  # 137 by itself is no kill


def test_death_by_a_signal_counts_from_128(sandbox: Sandbox) -> None:
    assert shell(sandbox, "kill -TERM $$").exit_code == 128 + 15
    assert shell(sandbox, "kill -KILL $$").exit_code == 128 + 9
    assert kills(sandbox) == 0


@pytest.mark.parametrize(
    ("command", "code"),
    [("no-such-command", 127), ("/no/such/path", 127), ("/etc/passwd", 126), ("/etc", 126)],
)
def test_command_that_cannot_start(sandbox: Sandbox, command: str, code: int) -> None:
    result = sandbox.exec([command])
    assert (result.ending, result.exit_code) == (Ending.EXIT, code)
    assert result.output  # says why


@pytest.mark.parametrize("options", [{"workdir": "/no/such"}, {"user": "no-such-user"}])
def test_command_that_cannot_start_as_asked(sandbox: Sandbox, options: dict[str, str]) -> None:
    result = shell(sandbox, "echo ran", **options)
    assert (result.ending, result.exit_code) == (Ending.EXIT, 126)
    assert "ran" not in result.output
    assert result.output


def test_arguments_arrive_as_they_are(sandbox: Sandbox) -> None:
    words = ["a b", "$HOME", "'", '"', "\n", "", "*"]
    result = sandbox.exec(["sh", "-c", 'printf "[%s]" "$@"', "sh", *words])
    assert result.output == "".join(f"[{word}]" for word in words)


# --- kills ---------------------------------------------------------------------------------------


def test_killed_child_that_its_parent_survives(sandbox: Sandbox) -> None:
    result = shell(sandbox, f"({HOG}); echo child $?; exit 0")
    assert result.exit_code == 0
    assert "child 137" in result.output
    assert kills(sandbox) == 1
    assert sandbox.counters().limit_reached is True


def test_killed_main_process_leaves_the_sandbox_alive(sandbox: Sandbox) -> None:
    assert shell(sandbox, HOG).exit_code == 137
    assert kills(sandbox) == 1
    assert sandbox.is_alive()
    assert shell(sandbox, "echo on").output == "on\n"


def test_every_kill_counts(sandbox: Sandbox) -> None:
    assert shell(sandbox, f"for i in 1 2 3; do ({HOG}); done; exit 0").exit_code == 0
    assert kills(sandbox) == 3


def test_kill_hidden_in_a_pipeline(sandbox: Sandbox) -> None:
    assert shell(sandbox, f"({HOG}) | cat; exit $?").exit_code == 0
    assert kills(sandbox) == 1


def test_kill_in_the_background_after_the_step(sandbox: Sandbox) -> None:
    assert shell(sandbox, f"(sleep 1; {HOG}) >/dev/null 2>&1 &").exit_code == 0
    assert sandbox.counters().oom_kills == 0
    time.sleep(2.5)
    assert kills(sandbox) == 1


def test_peak_stands_at_the_limit_after_a_kill(sandbox: Sandbox) -> None:
    before = sandbox.counters()
    assert before.limit_reached is False
    assert before.memory_peak_bytes is None or before.memory_peak_bytes < 16 * MIB
    shell(sandbox, HOG)
    after = sandbox.counters(expect_kill=True)
    assert after.memory_peak_bytes is None or 31 * MIB <= after.memory_peak_bytes <= 32 * MIB
    assert after.memory_working_set_bytes is not None
    assert after.memory_working_set_bytes < 16 * MIB


def test_page_cache_beyond_the_limit_is_no_kill(sandbox: Sandbox) -> None:
    script = (
        "i=0; while [ $i -lt 4 ]; do dd if=/dev/zero of=/var/file bs=65536 count=512 "
        "2>/dev/null || exit 1; cat /var/file >/dev/null; i=$((i + 1)); done; rm /var/file"
    )
    assert shell(sandbox, f"mkdir -p /var; {script}").exit_code == 0
    assert kills(sandbox) == 0


@pytest.mark.parametrize("block_kib", [4, 1024])
def test_files_in_shared_memory_count_and_kill(sandbox: Sandbox, block_kib: int) -> None:
    count = 48 * 1024 // block_kib
    result = shell(sandbox, f"dd if=/dev/zero of=/dev/shm/file bs={block_kib}k count={count}")
    counters = sandbox.counters(expect_kill=True)
    assert result.exit_code == 137
    assert counters.oom_kills is not None
    assert counters.oom_kills >= 1
    assert counters.limit_reached is True
    assert sandbox.is_alive()


def test_waiting_for_a_kill_that_does_not_come_is_short(sandbox: Sandbox) -> None:
    began = time.monotonic()
    assert sandbox.counters(expect_kill=True).oom_kills == 0
    assert 0.08 < time.monotonic() - began < 1.0


# --- deadlines and leftovers ---------------------------------------------------------------------


def test_deadline_ends_what_ignores_signals(sandbox: Sandbox) -> None:
    script = "trap '' TERM INT HUP QUIT; echo begun; while :; do tail -f /dev/null; done"
    result = shell(sandbox, script, timeout_seconds=1.0)
    assert (result.ending, result.exit_code) == (Ending.DEADLINE, None)
    assert 1.0 <= result.wall_seconds < 3.0
    assert result.output == "begun\n"
    assert not [name for name, _ in processes(sandbox) if name == "tail"]
    assert shell(sandbox, "echo on").output == "on\n"


def test_deadline_holds_while_output_flows(sandbox: Sandbox) -> None:
    result = shell(sandbox, "while :; do echo y; done", timeout_seconds=0.5)
    assert result.ending is Ending.DEADLINE
    assert result.wall_seconds < 3.0


def test_deadline_reaches_what_left_the_session(sandbox: Sandbox) -> None:
    script = "setsid sh -c 'trap \"\" HUP TERM; tail -f /dev/null' & tail -f /dev/null"
    assert shell(sandbox, script, timeout_seconds=0.5).ending is Ending.DEADLINE
    assert not [name for name, _ in processes(sandbox) if name == "tail"]


@pytest.mark.parametrize("start", ["tail -f /dev/null &", "setsid tail -f /dev/null &"])
def test_background_child_that_holds_stdout_delays_nothing(sandbox: Sandbox, start: str) -> None:
    result = shell(sandbox, f"{start} echo started; exit 3")
    assert (result.exit_code, result.output) == (3, "started\n")
    assert result.wall_seconds < 2.0
    until = time.monotonic() + 10
    while ("tail", "S") not in processes(sandbox):  # it goes on: a task may grade a live service
        assert time.monotonic() < until


def test_background_child_that_prints_without_end_delays_nothing(sandbox: Sandbox) -> None:
    result = shell(sandbox, "(while :; do echo y; done) & sleep 0.2; exit 4")
    assert result.exit_code == 4
    assert result.wall_seconds < 3.0


def test_command_that_closes_its_output_is_waited_for(sandbox: Sandbox) -> None:
    result = shell(sandbox, "exec >&- 2>&-; sleep 1; exit 5")
    assert result.exit_code == 5
    assert result.wall_seconds >= 1.0


def test_kill_all_leaves_the_holder_and_nothing_else(sandbox: Sandbox) -> None:
    before = sorted(processes(sandbox))
    script = """
    for i in 1 2 3; do tail -f /dev/null >/dev/null 2>&1 & done
    setsid sh -c 'trap "" TERM; while :; do tail -f /dev/null; done' >/dev/null 2>&1 &
    (true & exec tail -f /dev/null) >/dev/null 2>&1 &
    """
    shell(sandbox, script)
    until = time.monotonic() + 5
    while [name for name, _ in processes(sandbox)].count("tail") < 5:
        assert time.monotonic() < until
    sandbox.kill_all()
    assert sorted(processes(sandbox)) == before
    assert "Z" not in [state for _, state in processes(sandbox)]
    assert sandbox.is_alive()


def test_orphans_are_reaped(sandbox: Sandbox) -> None:
    shell(sandbox, "for i in 1 2 3; do (sleep 0.1 & ) ; done")
    time.sleep(0.5)
    assert "Z" not in [state for _, state in processes(sandbox)]


# --- output --------------------------------------------------------------------------------------


def test_output_is_capped_and_costs_no_memory(sandbox: Sandbox) -> None:
    before = psutil.Process().memory_info().rss
    result = shell(sandbox, "yes 0123456 | head -c 50000000; echo end")
    assert result.exit_code == 0
    assert result.output_bytes == 50_000_004
    assert result.output_truncated
    assert len(result.output.encode()) <= OUTPUT_TAIL_BYTES
    assert result.output.endswith("end\n")
    assert psutil.Process().memory_info().rss - before < 16 * MIB


def test_both_streams_are_kept(sandbox: Sandbox) -> None:
    result = shell(sandbox, "echo out; echo err >&2")
    assert sorted(result.output.splitlines()) == ["err", "out"]
    assert not result.output_truncated
    assert result.output_bytes == 8


def test_output_that_is_no_utf8(sandbox: Sandbox) -> None:
    result = shell(sandbox, r"printf 'a\303\050\377\000b'")
    assert result.output == "a\ufffd(\ufffd\x00b"
    assert result.output_bytes == 6


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sub").mkdir()
    (tmp_path / "run.sh").write_text("#!/bin/sh\necho ran\n", encoding="utf-8")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "sub" / "data").write_bytes(bytes(range(256)))
    (tmp_path / "link").symlink_to("run.sh")
    return tmp_path


def test_put_a_folder(sandbox: Sandbox, folder: Path) -> None:
    sandbox.put(folder, "/new/place")
    assert sandbox.exec(["/new/place/run.sh"]).output == "ran\n"
    assert sandbox.exec(["/new/place/link"]).output == "ran\n"
    assert sandbox.read("/new/place/sub/data", max_bytes=1000) == bytes(range(256))
    assert shell(sandbox, "ls -ln /new/place/run.sh").output.split()[2:4] == ["0", "0"]


def test_put_replaces_what_is_there(sandbox: Sandbox, folder: Path) -> None:
    shell(sandbox, "mkdir -p /tests/old; echo old >/tests/run.sh")
    sandbox.put(folder, "/tests")
    assert shell(sandbox, "ls /tests").output.split() == ["link", "run.sh", "sub"]


def test_put_a_folder_over_a_planted_symlink(sandbox: Sandbox, folder: Path) -> None:
    shell(sandbox, "mkdir /victim; echo safe >/victim/run.sh; rm -rf /tests; ln -s /victim /tests")
    sandbox.put(folder, "/tests")
    assert shell(sandbox, "cat /victim/run.sh; ls /victim").output == "safe\nrun.sh\n"
    assert shell(sandbox, "[ ! -L /tests ] && /tests/run.sh").output == "ran\n"


def test_put_a_file_over_a_planted_symlink(sandbox: Sandbox, folder: Path) -> None:
    shell(sandbox, "echo safe >/victim; ln -s /victim /script")
    sandbox.put(folder / "run.sh", "/script")
    assert sandbox.read("/victim", max_bytes=100) == b"safe\n"
    assert sandbox.exec(["/script"]).output == "ran\n"


def test_put_makes_parents(sandbox: Sandbox, folder: Path) -> None:
    sandbox.put(folder / "run.sh", "/some/new/place/it")
    assert sandbox.exec(["/some/new/place/it"]).output == "ran\n"


def test_read(sandbox: Sandbox) -> None:
    shell(sandbox, "printf 0123456789 >/file; mkfifo /pipe")
    assert sandbox.read("/file", max_bytes=100) == b"0123456789"
    assert sandbox.read("/file", max_bytes=4) == b"6789"
    assert sandbox.read("/nowhere", max_bytes=4) is None
    assert sandbox.read("/etc", max_bytes=4) is None
    assert sandbox.read("/pipe", max_bytes=4) is None


def test_get(sandbox: Sandbox, tmp_path: Path) -> None:
    shell(sandbox, "mkdir -p /out/sub; echo one >/out/one; echo two >/out/sub/two; ln -s / /out/up")
    sandbox.get("/out", tmp_path / "out")
    assert (tmp_path / "out" / "one").read_text() == "one\n"
    assert (tmp_path / "out" / "sub" / "two").read_text() == "two\n"
    assert not (tmp_path / "out" / "up").exists()
    sandbox.get("/out/one", tmp_path / "single")
    assert (tmp_path / "single").read_text() == "one\n"
    with pytest.raises(FileNotFoundError):
        sandbox.get("/nowhere", tmp_path / "nothing")


@pytest.mark.parametrize("leads_to", ["/etc", "/etc/passwd", "/proc", "/nowhere", "linked", "/x/y"])
def test_get_follows_no_link(sandbox: Sandbox, tmp_path: Path, leads_to: str) -> None:
    shell(sandbox, f"mkdir /out; ln -s {leads_to} /out/linked")
    with suppress(FileNotFoundError):
        sandbox.get("/out/linked", tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_tree_of_any_depth_is_made_way_for(sandbox: Sandbox, folder: Path) -> None:
    script = (
        "mkdir /tests; cd /tests; n=0; while [ $n -lt 1500 ]; do mkdir e && cd e; n=$((n+1)); done"
    )
    assert shell(sandbox, script).exit_code == 0
    sandbox.put(folder, "/tests")
    assert shell(sandbox, "ls /tests").output.split() == ["link", "run.sh", "sub"]


def test_get_is_bounded(sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_COPY_BYTES", MIB)
    shell(sandbox, "mkdir /out; truncate -s 20G /out/hole; echo fine >/file")
    for source in ("/out", "/out/hole"):
        with pytest.raises(ValueError, match="more than 8"):
            sandbox.get(source, tmp_path / source.replace("/", "-"))
    assert sum(file.stat().st_size for file in tmp_path.rglob("*")) < 8 * MIB
    sandbox.get("/file", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "fine\n"


def test_get_goes_so_deep_and_no_deeper(sandbox: Sandbox, tmp_path: Path) -> None:
    deep = "/".join("d" * base.MAX_COPY_DEPTH)
    shell(sandbox, f"mkdir -p /fine/{deep} /deep/{deep}/too; echo end >/fine/{deep}/file")
    sandbox.get("/fine", tmp_path / "fine")
    assert (tmp_path / "fine" / deep / "file").read_text() == "end\n"
    with pytest.raises(ValueError, match="100 deep"):
        sandbox.get("/deep", tmp_path / "deep")
    script = "cd /; n=0; while [ $n -lt 1500 ]; do mkdir e && cd e || exit; n=$((n+1)); done"
    assert shell(sandbox, script).exit_code == 0
    with pytest.raises(ValueError, match="100 deep"):
        sandbox.get("/e", tmp_path / "endless")


def test_get_of_what_a_file_or_a_loop_hides_is_nothing(sandbox: Sandbox, tmp_path: Path) -> None:
    shell(sandbox, "echo >/file; ln -s /loop /loop; mkfifo /pipe")
    for source in ("/file/inside", "/loop/inside", "/loop"):
        with pytest.raises(FileNotFoundError):
            sandbox.get(source, tmp_path / "target")
    with suppress(FileNotFoundError):
        sandbox.get("/pipe", tmp_path / "target")
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("leads_to", ["/proc/self/mem", "/proc/self/fd/0", "linked", "/dev/zero"])
def test_read_of_what_is_no_file_is_nothing(sandbox: Sandbox, leads_to: str) -> None:
    shell(sandbox, f"mkdir /out; ln -s {leads_to} /out/linked")
    assert not sandbox.read("/out/linked", max_bytes=100)


# --- environment, folder, user -------------------------------------------------------------------


def test_environment(open_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = open_sandbox(environment={"FROM_REQUEST": "a b", "BOTH": "request"})
    result = sandbox.exec(
        ["sh", "-c", 'echo "$FROM_REQUEST|$BOTH|$STEP"'],
        environment={"STEP": "s", "BOTH": "step"},
    )
    assert result.output == "a b|step|s\n"
    assert shell(sandbox, 'echo "$BOTH|$STEP"').output == "request|\n"


def test_workdir(open_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = open_sandbox(task=make_task(workdir="/tmp"))
    assert shell(sandbox, "pwd").output == "/tmp\n"
    assert shell(sandbox, "pwd", workdir="/etc").output == "/etc\n"


def test_user(sandbox: Sandbox) -> None:
    assert shell(sandbox, "id -u").output == "0\n"
    assert shell(sandbox, "id -u", user="nobody").output == "65534\n"


# --- limits --------------------------------------------------------------------------------------


def test_effective_limits_are_as_asked(open_sandbox: Callable[..., Sandbox]) -> None:
    given = allocation(64 * MIB, 0.5, memory_guarantee_bytes=32 * MIB, cpu_guarantee_cores=0.25)
    limits = open_sandbox(given).effective_limits()
    assert limits.values["memory_limit_bytes"] == 64 * MIB
    assert limits.values["cpu_limit_cores"] == pytest.approx(0.5)
    assert limits.values.get("memory_swap_bytes", 64 * MIB) == 64 * MIB  # no way out
    assert limits.source


def test_uncapped_has_no_limits(open_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = open_sandbox(allocation(None, None, cpu_guarantee_cores=0.25))
    values = sandbox.effective_limits().values
    assert [values.get(key) for key in ("memory_limit_bytes", "cpu_limit_cores")] == [None, None]
    assert values.get("memory_swap_bytes") is None
    assert shell(sandbox, "dd if=/dev/zero of=/dev/null bs=64M count=1").exit_code == 0
    assert sandbox.counters().limit_reached is False
    assert sandbox.counters().oom_kills == 0


def test_cpu_quota_throttles(open_sandbox: Callable[..., Sandbox]) -> None:
    sandbox = open_sandbox(allocation(cpu_limit_cores=0.1))
    before = sandbox.counters()
    shell(sandbox, "while :; do :; done", timeout_seconds=1.0)
    after = sandbox.counters()
    assert before.cpu_seconds is not None
    assert after.cpu_seconds is not None
    assert 0.02 < after.cpu_seconds - before.cpu_seconds < 0.5
    if after.throttled_periods is not None:
        assert after.throttled_periods > 0
        assert after.cpu_periods is not None
        assert after.cpu_periods >= after.throttled_periods


# --- the end -------------------------------------------------------------------------------------


def test_close_twice_and_nothing_is_left(
    backend: Backend, study: str, open_sandbox: Callable[..., Sandbox]
) -> None:
    sandbox = open_sandbox()
    shell(sandbox, "tail -f /dev/null &")
    sandbox.close()
    sandbox.close()
    assert not sandbox.is_alive()
    assert backend.sweep(study) == 0


def test_sandbox_removed_from_outside_is_lost(
    backend: Backend, study: str, open_sandbox: Callable[..., Sandbox], tmp_path: Path
) -> None:
    sandbox = open_sandbox()
    assert backend.sweep(study) == 1
    assert not sandbox.is_alive()
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for use in (
        lambda: shell(sandbox, "true"),
        lambda: sandbox.put(tmp_path / "file", "/file"),
        lambda: sandbox.get("/etc", tmp_path / "etc"),
        sandbox.kill_all,
    ):
        with pytest.raises(SandboxError) as caught:
            use()
        assert caught.value.cause == Cause.SANDBOX_LOST
    assert sandbox.counters(expect_kill=True).oom_kills is None
    sandbox.close()


def test_sweep_takes_one_owner_only(
    backend: Backend, study: str, open_sandbox: Callable[..., Sandbox]
) -> None:
    mine = open_sandbox(trial="one", owner="mine")
    other = open_sandbox(trial="two", owner="other")
    assert backend.sweep(study, "mine") == 1
    assert (mine.is_alive(), other.is_alive()) == (False, True)
    assert backend.sweep(study) == 1


def test_context_manager_closes(open_sandbox: Callable[..., Sandbox]) -> None:
    with open_sandbox() as sandbox:
        assert sandbox.is_alive()
    assert not sandbox.is_alive()


def test_info(backend: Backend) -> None:
    info = backend.info
    assert info.backend in ("docker", "local")
    assert info.engine_id
    assert info.enforcement in ("hard limit", "watchdog")
    assert 0 < info.capacity.cpu_cores <= (os.cpu_count() or 1) * 64
    assert info.capacity.memory_bytes > info.capacity.minimum_memory_bytes
