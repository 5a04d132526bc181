"""What a compose file may not take: parts of the host, what trials would share, lifted limits.

A task of several containers gets no more of the host than one of a single container: the files of
its own folder. Everything else is refused by name, before anything is started.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_infranoise.backends.docker.compose_model import is_logs, mounts_of, services_of
from pytest_infranoise.errors import UsageError
from pytest_infranoise.model.task import ComposeSource, compose_task_folder

_NAMESPACES = ("network_mode", "pid", "ipc", "cgroup", "userns_mode", "uts")
_EVER_REFUSED = ("privileged", "devices", "device_cgroup_rules", "use_api_socket", "provider")
_BUILD_REFUSED = ("privileged", "ssh", "entitlements")
_CAPABILITIES = frozenset({
    "ALL", "BPF", "DAC_READ_SEARCH", "MAC_ADMIN", "MAC_OVERRIDE", "PERFMON", "SYSLOG", "SYS_ADMIN",
    "SYS_BOOT", "SYS_MODULE", "SYS_RAWIO", "SYS_TIME",
})  # fmt: skip
"""Capabilities that act on the host itself; the others end where a container's namespaces do."""


def check_model(model: Mapping[str, Any], source: ComposeSource) -> None:
    """Refuse what trials beside each other would share, what lifts their limits, and the host's.

    Args:
        model: the file as Compose understands it, with absolute paths.
        source: where it comes from.

    Raises:
        UsageError: one line that names the file, the service and the key.
    """
    where, root = source.place, compose_task_folder(source.file)
    _check_shared(model, where, root)
    known = {source.main, *(item.name for item in source.helpers)}
    for name, service in services_of(model):
        if name not in known:
            raise UsageError(
                f"{where}: services.{name}: comes from another file; its resources must be here"
            )
        _check_service(service, f"{where}: services.{name}", root)


def _check_shared(model: Mapping[str, Any], where: str, root: Path) -> None:
    """Check what services name: networks, volumes, secrets and configs."""
    for kind in ("networks", "volumes", "secrets", "configs"):
        for name, value in (model.get(kind) or {}).items():
            given, place = value or {}, f"{where}: {kind}.{name}"
            if given.get("external"):
                raise UsageError(f"{place}.external: trials would share it; remove external")
            device = str((given.get("driver_opts") or {}).get("device", ""))
            if device.startswith(("/", ".", "~")):
                raise UsageError(f"{place}.driver_opts.device: {device} is the host's; remove it")
            if given.get("file"):
                _check_inside(given["file"], root, f"{place}.file")


def _check_service(service: Mapping[str, Any], where: str, root: Path) -> None:
    for key, value in _host_keys(service):
        raise UsageError(
            f"{where}.{key}: {value} takes the service out of its trial, which is not "
            "supported; leave this task out"
        )
    for mount in mounts_of(service):
        if mount.get("type") == "bind" and not is_logs(mount):
            _check_bind(mount, f"{where}.volumes", root)
    _check_build(service.get("build"), f"{where}.build", root)


def _host_keys(service: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each key, with its value in words, that reaches beyond the trial's containers."""
    for key in _NAMESPACES:
        value = service.get(key)
        if value == "host" or str(value).startswith("container:"):
            yield key, str(value)
    for key in _EVER_REFUSED:
        if service.get(key):
            yield key, _words(service[key])
    for key, is_refused in _REFUSED_ENTRIES.items():
        yield from ((key, str(entry)) for entry in service.get(key) or () if is_refused(str(entry)))
    for key in ("post_start", "pre_stop"):
        if any(hook.get("privileged") for hook in service.get(key) or ()):
            yield f"{key}.privileged", "true"


def _is_capability_on_host(entry: str) -> bool:
    return entry.upper().removeprefix("CAP_") in _CAPABILITIES


def _opens_proc(entry: str) -> bool:
    return entry.replace("=", ":").replace(" ", "") == "systempaths:unconfined"


def _is_of_other_container(entry: str) -> bool:
    return entry.startswith("container:")


_REFUSED_ENTRIES: Mapping[str, Callable[[str], bool]] = {
    "cap_add": _is_capability_on_host,
    "security_opt": _opens_proc,
    "volumes_from": _is_of_other_container,
}


def _words(value: Any) -> str:
    if value is True:
        return "true"
    return str(value[0] if isinstance(value, list) else value)[:80]


def _check_bind(mount: Mapping[str, Any], where: str, root: Path) -> None:
    """Refuse a host folder that can be written, or that is not the task's own."""
    source = str(mount.get("source", ""))
    if not mount.get("read_only") or source.endswith(".sock"):
        raise UsageError(
            f"{where}: {source} can be written from inside, and trials would "
            "share it; mount it read-only (:ro), or copy it into the image"
        )
    _check_inside(source, root, where)


def _check_build(build: Any, where: str, root: Path) -> None:
    values = {"context": build} if isinstance(build, str) else build or {}
    for key in _BUILD_REFUSED:
        if values.get(key):
            raise UsageError(
                f"{where}.{key}: is the host's, which a task has no part in; remove it"
            )
    if values.get("network") == "host":
        raise UsageError(f"{where}.network: host is not supported; remove it")
    others = values.get("additional_contexts") or {}
    named = (
        others.values()
        if isinstance(others, dict)
        else (str(item).partition("=")[2] for item in others)
    )
    for context in (values.get("context"), *named):
        if context and str(context).startswith("/"):
            _check_inside(context, root, f"{where}.context")


def _check_inside(path: Any, root: Path, where: str) -> None:
    """Refuse a host path outside the task's folder; symlinks are followed, as an engine does."""
    if not Path(str(path)).resolve().is_relative_to(root):
        raise UsageError(
            f"{where}: {path} lies outside the task's folder; copy it there or into the image"
        )
