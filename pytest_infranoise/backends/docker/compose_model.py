"""A trial's own compose file, made of the task's: our limits and labels in, what is shared out.

Pure: it turns what Compose says of the task's file (`Compose.config`) into what one trial starts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_infranoise.model.task import LOGS_SOURCE, ComposeSource, HelperService

OUR_IMAGE = "pytest-infranoise-main"
"""Stands for the image of the task's own Dockerfile or docker_image in a compose file."""

_IMAGE_KEYS = ("image", "build", "pull_policy")
_LIMIT_KEYS = (
    *("deploy", "mem_limit", "memswap_limit", "mem_reservation", "mem_swappiness", "storage_opt"),
    *("cpus", "cpu_count", "cpu_percent", "cpu_shares", "cpu_quota", "cpu_period", "cpuset"),
    *("cgroup_parent", "oom_kill_disable", "oom_score_adj"),
)
_OURS = ("container_name", "ports", "restart", "logging", "profiles", "scale")
_SLEEPERS = ("sleep infinity", "tail -f /dev/null", "sleep inf")


@dataclass(frozen=True, slots=True)
class TrialSettings:
    """What one trial's containers get: `main` in the keys of a compose file, `labels` for all.

    `images` are by service. `environment` is added to the main service's.
    """

    images: Mapping[str, str]
    labels: Mapping[str, str]
    main: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    has_network: bool = True
    cgroup_parent: str | None = None


def ignored(model: Mapping[str, Any], source: ComposeSource) -> Iterator[str]:
    """Yield a warning for each thing in the file that has no effect here."""
    for name, service in services_of(model):
        if service.get("ports"):
            yield "docker-compose.yaml: ports: not published on the host"
        if service.get("restart") not in (None, "no"):
            yield "docker-compose.yaml: restart: a service that ends is not started again"
        if name != source.main:
            continue
        if service.get("command") and not _only_sleeps(service["command"]):
            yield f"docker-compose.yaml: {name}.command: not run in the agent's container"
        if any(service.get(key) for key in ("mem_limit", "cpus", "deploy")):
            yield f"docker-compose.yaml: {name}: limits are the parameter set's"


def _only_sleeps(command: Any) -> bool:
    text = command if isinstance(command, str) else " ".join(map(str, command))
    return any(word in text for word in _SLEEPERS)


def trial_file(
    model: Mapping[str, Any], source: ComposeSource, settings: TrialSettings
) -> dict[str, Any]:
    """Return the compose file of one trial."""
    helpers = {item.name: item for item in source.helpers}
    found = dict(services_of(model))
    services = {
        name: _common(found[name], name, settings) | _helper(found[name], helpers[name])
        for name in found
        if name != source.main
    }
    own = found.get(source.main, {})
    services[source.main] = _common(own, source.main, settings) | _main(own, settings)
    volumes = {**(model.get("volumes") or {}), **_log_volumes(found)}
    networks = {"default": {}, **(model.get("networks") or {})}
    labels = doubled(settings.labels)
    inner = {} if settings.has_network else {"internal": True}
    kept = {key: model[key] for key in ("secrets", "configs") if model.get(key)}
    return {
        "version": "3.9",
        "services": services,
        "networks": {name: _labelled(item, labels) | inner for name, item in networks.items()},
        "volumes": {name: _labelled(item, labels) for name, item in volumes.items()},
        **kept,
    }


def doubled(values: Mapping[str, str]) -> dict[str, str]:
    """Return values as a compose file holds them: with every dollar twice."""
    return {name: value.replace("$", "$$") for name, value in values.items()}


def services_of(model: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the services that are started, by name."""
    for name, service in (model.get("services") or {}).items():
        if not service.get("profiles"):
            yield name, service


def _common(service: Mapping[str, Any], name: str, settings: TrialSettings) -> dict[str, Any]:
    """Return what every service keeps and gets."""
    dropped = {*_IMAGE_KEYS, *_LIMIT_KEYS, *_OURS}
    kept = {key: value for key, value in service.items() if key not in dropped}
    kept |= {
        "image": settings.images[name],
        "labels": {**_labels(service.get("labels")), **doubled(settings.labels)},
        "restart": "no",
        "logging": {"driver": "json-file", "options": {"max-size": "1m"}},
    }
    if settings.cgroup_parent is not None:
        kept["cgroup_parent"] = settings.cgroup_parent
    mounts = [_mount(item) for item in mounts_of(service)]
    if mounts:
        kept["volumes"] = mounts
    if service.get("network_mode") is None:
        kept["networks"] = _networks(service)
    return kept


def _helper(service: Mapping[str, Any], helper: HelperService) -> dict[str, Any]:
    limits: dict[str, Any] = {
        "mem_limit": helper.memory_limit_bytes,
        "memswap_limit": helper.memory_limit_bytes,
    }
    if helper.cpu_limit_cores is not None:
        limits["cpus"] = helper.cpu_limit_cores
    return limits


def _main(service: Mapping[str, Any], settings: TrialSettings) -> dict[str, Any]:
    """Return the main service's own; an image's healthcheck would run beside the agent."""
    environment = {**_environment(service.get("environment")), **doubled(settings.environment)}
    health = {} if service.get("healthcheck") else {"healthcheck": {"disable": True}}
    return {**settings.main, **health, "environment": environment}


def _environment(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        pairs = (str(item).partition("=") for item in value)
        return {name: text if sign else None for name, sign, text in pairs}
    return dict(value or {})


def _labels(value: Any) -> dict[str, Any]:
    return {name: text or "" for name, text in _environment(value).items()}


def _networks(service: Mapping[str, Any]) -> dict[str, Any]:
    """Return a service's networks; a fixed name of its container stays a name in them."""
    given = service.get("networks") or ["default"]
    networks = dict.fromkeys(given) if isinstance(given, list) else dict(given)
    name = service.get("container_name")
    if not name:
        return networks
    return {
        network: {**(own or {}), "aliases": [*((own or {}).get("aliases") or []), name]}
        for network, own in networks.items()
    }


def mounts_of(service: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a service's volumes in the long form."""
    for item in service.get("volumes") or ():
        if not isinstance(item, str):
            yield dict(item)
            continue
        source, colon, rest = item.partition(":")
        target, _, mode = rest.partition(":")
        if not colon:
            yield {"type": "volume", "target": source}
            continue
        kind = "bind" if source.startswith("/") else "volume"
        read_only = "ro" in mode.split(",")
        yield {"type": kind, "source": source, "target": target, "read_only": read_only}


def _mount(mount: dict[str, Any]) -> dict[str, Any]:
    """Return a mount for one trial: a folder of logs is a volume of its own."""
    if not is_logs(mount):
        return mount
    return {"type": "volume", "source": _log_volume(mount), "target": mount["target"]}


def _log_volumes(services: Mapping[str, Any]) -> dict[str, Any]:
    mounts = (mount for service in services.values() for mount in mounts_of(service))
    return {_log_volume(mount): {} for mount in mounts if is_logs(mount)}


def _log_volume(mount: Mapping[str, Any]) -> str:
    return "infranoise-logs-" + str(mount["source"]).removeprefix(LOGS_SOURCE + "/")


def is_logs(mount: Mapping[str, Any]) -> bool:
    """Whether a mount is of a folder of logs, which is a volume of the trial."""
    return str(mount.get("source", "")).startswith(LOGS_SOURCE + "/")


def _labelled(item: Mapping[str, Any] | None, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a network or volume with our labels, and no name that all trials would share."""
    return {key: value for key, value in (item or {}).items() if key != "name"} | {"labels": labels}
