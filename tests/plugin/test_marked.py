"""Tests of an existing suite, run over the parameter sets without further change."""

import pytest
from bench import BUSYBOX, Bench, hog

MARK = f'@pytest.mark.infra(memory="32M", image="{BUSYBOX}", timeout=20)'


def suite(bench: Bench, body: str, mark: str = MARK) -> None:
    bench.pytester.makepyfile(test_suite=f"import pytest\n\n{mark}\n{body}")


def run(bench: Bench, *args: str) -> pytest.RunResult:
    return bench.pytester.runpytest_subprocess(
        f"--infra-backend={bench.engine}", "-p", "no:cacheprovider", *args, timeout=120
    )


def test_assertions_are_the_verdict(bench: Bench) -> None:
    suite(
        bench,
        "def test_work(infra_sandbox):\n"
        f'    assert infra_sandbox.exec("{hog(64)}").exit_code == 0\n',
    )
    result = run(bench, "--infra-multipliers=1,4", "-n0")
    result.stdout.fnmatch_lines(
        [
            "OOM test_suite.py::test_work 1x-s1 ended_phase: killed in agent, limit 32 MiB",
            "kills: 1 kill at 1x in 1 task, none at 4x",
        ]
    )
    assert bench.outcomes() == {
        ("test_suite.py::test_work", "1x"): "oom",
        ("test_suite.py::test_work", "4x"): "passed",
    }
    assert result.ret == 1


def test_a_survived_kill_is_no_oom(bench: Bench) -> None:
    suite(
        bench,
        "def test_work(infra_sandbox):\n"
        f'    result = infra_sandbox.exec("{hog(64)}")\n'
        "    assert (result.exit_code, result.oom_kills) == (137, 1)\n"
        "    assert infra_sandbox.oom_kills == 1\n",
    )
    assert run(bench, "-n0").ret == 0
    (record,) = bench.records()
    assert (record["outcome"], record["oom_kills"]) == ("passed", 1)


def test_the_sandbox_offers_its_manual(bench: Bench) -> None:
    (bench.path / "data").mkdir()
    (bench.path / "data" / "in.txt").write_text("hello\n")
    suite(
        bench,
        "def test_work(infra_sandbox, tmp_path):\n"
        "    assert infra_sandbox.allocation.memory_limit_bytes == 32 * 1024**2\n"
        "    assert infra_sandbox.oom_kills == 0\n"
        '    infra_sandbox.put("data", "/srv/data")\n'
        '    argv = ["sh", "-c", "tr a-z A-Z <in.txt >out.txt; echo $NAME; cat out.txt"]\n'
        '    result = infra_sandbox.exec(argv, cwd="/srv/data", env={"NAME": "x"})\n'
        '    assert (result.exit_code, result.output) == (0, "x\\nHELLO\\n")\n'
        '    infra_sandbox.get("/srv/data/out.txt", tmp_path / "out.txt")\n'
        '    assert (tmp_path / "out.txt").read_text() == "HELLO\\n"\n'
        "    with pytest.raises(FileNotFoundError):\n"
        '        infra_sandbox.get("/nowhere", tmp_path / "x")\n'
        "    with pytest.raises(FileNotFoundError):\n"
        '        infra_sandbox.put("nowhere", "/x")\n'
        '    assert infra_sandbox.exec("sleep 30", timeout=0.5).timed_out\n',
    )
    assert run(bench, "-n0").ret == 0


def test_without_options_a_marked_test_runs_at_1x(one_bench: Bench) -> None:
    suite(one_bench, 'def test_work(infra_sandbox): infra_sandbox.exec("true")\n')
    for workers in ("-n0", "-n2"):
        result = run(one_bench, workers)
        assert result.ret == 0
        result.stdout.fnmatch_lines(["1 task x 1 parameter set x 1 sample*"])
        (record,) = one_bench.records()
        assert (record["parameter_set"], record["outcome"]) == ("1x", "passed")


def test_a_deadline_is_a_timeout(one_bench: Bench) -> None:
    suite(
        one_bench,
        "def test_work(infra_sandbox):\n"
        '    assert infra_sandbox.exec("sleep 30", timeout=0.5).exit_code == 0\n',
    )
    run(one_bench, "-n0")
    (record,) = one_bench.records()
    assert record["outcome"] == "timeout"


def test_other_parameters_name_other_tasks(one_bench: Bench) -> None:
    suite(
        one_bench,
        '@pytest.mark.parametrize("size", [1, 2])\n'
        'def test_work(infra_sandbox, size): infra_sandbox.exec("true")\n',
    )
    for workers in ("-n0", "-n2"):
        run(one_bench, workers, "--infra-multipliers=1,2")
        assert set(one_bench.outcomes()) == {
            (f"test_suite.py::test_work[{size}]", multiplier)
            for size in (1, 2)
            for multiplier in ("1x", "2x")
        }


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
@pytest.mark.parametrize(
    ("mark", "line"),
    [
        ('@pytest.mark.infra(image="x")', "*test_work: infra marker: memory is not given*"),
        ('@pytest.mark.infra(memory="2Q")', "*test_work: infra marker: memory: '2Q' is not a*"),
        ('@pytest.mark.infra(memory="1G", ram=1)', "*infra marker: unknown argument ram*"),
        ('@pytest.mark.infra("1G")', "*infra marker: name its arguments*"),
        ("", "*infra_sandbox needs @pytest.mark.infra(memory=..., ...)"),
    ],
)
def test_a_bad_marker_is_an_error_of_its_test_alone(
    one_bench: Bench, mark: str, line: str, workers: str
) -> None:
    suite(one_bench, "def test_work(infra_sandbox): pass\n\ndef test_other(): pass\n", mark)
    result = run(one_bench, workers)
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines([line])
    assert "INTERNALERROR" not in result.stdout.str()


def test_marker_arguments_come_from_ini_defaults(one_bench: Bench) -> None:
    suite(
        one_bench,
        "def test_work(infra_sandbox):\n"
        "    assert infra_sandbox.allocation.memory_limit_bytes == 48 * 1024**2\n"
        "    assert infra_sandbox.allocation.cpu_limit_cores == 0.5\n",
        "@pytest.mark.infra",
    )
    one_bench.pytester.makeini(
        "[pytest]\ninfra_default_memory = 48M\ninfra_default_cpus = 0.5\n"
        f"infra_default_image = {BUSYBOX}\ninfra_default_timeout = 9\n"
    )
    assert run(one_bench, "-n0").ret == 0


def test_an_image_that_cannot_be_had_is_an_error_of_its_test(one_bench: Bench) -> None:
    suite(
        one_bench,
        "def test_work(infra_sandbox): pass\n\ndef test_other(): pass\n",
        '@pytest.mark.infra(memory="32M", image="no.such.registry.invalid/image:none")',
    )
    result = run(one_bench, "-n0")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*no.such.registry.invalid/image:none*"])


def test_a_skip_inside_is_no_record(one_bench: Bench) -> None:
    suite(one_bench, 'def test_work(infra_sandbox): pytest.skip("not today")\n')
    run(one_bench, "-n0").assert_outcomes(skipped=1)
    assert not one_bench.studies()


def test_the_sandbox_is_closed_when_the_test_ends(one_bench: Bench) -> None:
    suite(
        one_bench,
        "def test_work(infra_sandbox, request):\n"
        "    def late():\n"
        '        with pytest.raises(Exception, match="closed"):\n'
        '            infra_sandbox.exec("true")\n'
        "    request.addfinalizer(late)\n",
    )
    run(one_bench, "-n0").assert_outcomes(passed=1)


def test_a_bug_in_the_test_fails_as_any_other(one_bench: Bench) -> None:
    suite(one_bench, "def test_work(infra_sandbox): undefined\n")
    result = run(one_bench, "-n0")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*NameError: name 'undefined' is not defined"])
