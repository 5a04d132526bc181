"""An engine's own limits never become a failed trial: clamped with a note, or refused before."""

from collections.abc import Callable
from typing import Any

import pytest
from sandboxes import BUSYBOX

from pytest_infranoise.backends.docker.backend import DockerBackend
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.enforcement import Enforcement
from pytest_infranoise.model.resources import (
    Allocation,
    Multiplier,
    ParameterSet,
    ResourceSpec,
    allocate,
    fit,
)
from pytest_infranoise.units import MIB

Open = Callable[..., Any]


@pytest.fixture
def backend(docker_backend: DockerBackend, docker_image: Callable[[str], str]) -> DockerBackend:
    docker_image(BUSYBOX)
    return docker_backend


def effective(
    backend: DockerBackend, spec: ResourceSpec, multiplier: str, *, clamp: bool = False
) -> Allocation:
    chosen = ParameterSet.joint(Multiplier.parse(multiplier, where="test"))
    return fit(
        allocate(spec, chosen), backend.info.capacity, clamp=clamp, where="task t, parameter set x"
    )


def runs(open_sandbox: Open, given: Allocation, **options: Any) -> dict[str, Any]:
    """Open a sandbox, run something in it, and return what the engine enforces."""
    sandbox = open_sandbox(given, **options)
    assert sandbox.exec(["true"]).exit_code == 0
    return dict(sandbox.effective_limits().values)


@pytest.mark.parametrize("cores", [1000.0, 64.5])
def test_cpu_above_the_engine_s_cores_is_clamped_with_a_note(
    backend: DockerBackend, open_sandbox: Open, cores: float
) -> None:
    given = effective(backend, ResourceSpec.declared(32 * MIB, cores), "1")
    assert given.notes
    found = runs(open_sandbox, given)
    assert found["cpu_limit_cores"] == backend.info.capacity.cpu_cores


@pytest.mark.parametrize("cores", [0.001, 0.01, 0.015, 1 / 3])
def test_however_little_cpu_is_asked_for_the_engine_takes_it(
    backend: DockerBackend, open_sandbox: Open, cores: float
) -> None:
    given = effective(backend, ResourceSpec.declared(32 * MIB, cores), "1")
    assert bool(given.notes) == (cores < 0.01)
    found = runs(open_sandbox, given)
    assert found["cpu_limit_cores"] == pytest.approx(max(cores, 0.01), rel=0.01)


@pytest.mark.parametrize(
    ("memory", "multiplier"),
    [(1, "1"), (6 * MIB - 1, "1"), (12 * MIB, "0.4999"), (1 << 50, "1"), (32 * MIB, "99999999")],
)
def test_memory_that_the_engine_cannot_enforce_is_refused_or_clamped_with_a_note(
    backend: DockerBackend, open_sandbox: Open, memory: int, multiplier: str
) -> None:
    spec = ResourceSpec.declared(memory, None)
    with pytest.raises(UsageError, match="task t, parameter set x") as caught:
        effective(backend, spec, multiplier)
    assert "\n" not in str(caught.value)
    given = effective(backend, spec, multiplier, clamp=True)
    assert given.notes
    assert runs(open_sandbox, given)["memory_limit_bytes"] == given.memory_limit_bytes


@pytest.mark.parametrize(
    ("guarantee", "limit", "reservation"),
    [
        (64 * MIB, 32 * MIB, 32 * MIB),  # below 1x it follows the threshold
        (32 * MIB, 32 * MIB, 32 * MIB),
        (1 * MIB, 32 * MIB, None),  # less than the engine accepts: it would reserve nothing
        (0, 32 * MIB, None),
        (64 * MIB, None, 64 * MIB),
    ],
)
def test_a_reservation_never_stands_above_the_limit(
    open_sandbox: Open, backend: DockerBackend, guarantee: int, limit: int | None, reservation: int
) -> None:
    found = runs(open_sandbox, Allocation(guarantee, limit, None, None))
    assert found["memory_reservation_bytes"] == reservation
    assert found["memory_limit_bytes"] == limit


@pytest.mark.parametrize("cores", [0.0001, 1000.0])
def test_whatever_is_guaranteed_of_the_cpu_the_weight_is_one_that_the_engine_knows(
    open_sandbox: Open, backend: DockerBackend, cores: float
) -> None:
    assert runs(open_sandbox, Allocation(32 * MIB, 32 * MIB, cores, None))["cpu_weight"] >= 1


@pytest.mark.parametrize("limit", [12 * MIB, 32 * MIB, 32 * MIB + 1, None])
def test_swap_twice_the_limit_is_taken_by_the_engine(
    open_sandbox: Open, backend: DockerBackend, limit: int | None
) -> None:
    given = Allocation(0, limit, None, None)
    found = runs(open_sandbox, given, enforcement=Enforcement(swap="twice"))
    if limit is not None and backend.info.details["swap_limit"]:
        assert found["memory_swap_bytes"] == pytest.approx(2 * limit, abs=8192)


@pytest.mark.parametrize("position", [0, -1])
def test_each_cpu_that_is_offered_can_be_had(
    open_sandbox: Open, backend: DockerBackend, position: int
) -> None:
    chosen = (backend.info.cpus[position],)
    sandbox = open_sandbox(Allocation(0, 32 * MIB, None, 1.0), cpus=chosen)
    assert sandbox.exec(["nproc"]).output.strip() == "1"
    status = sandbox.exec(["grep", "Cpus_allowed_list", "/proc/self/status"]).output
    assert status.split()[1] == str(chosen[0])
