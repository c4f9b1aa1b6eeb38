"""docker-compose.yml: a valid Compose file without secrets, whose own services run and answer their health checks.

No Docker is needed: each of our services is its command with its environment, as a process of this machine.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import redis
import yaml
from sqlalchemy import create_engine

from messaging.db import schema
from messaging.embedded import Postgres, Valkey, free_port
from messaging.embedded.programs import valkey_program
from messaging.settings import DeliverySettings, QueueSettings
from tests.far_end.packages import Program, require

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)

#: What whoever starts it must choose.
CHOSEN = {
    "MESSAGING_POSTGRES_PASSWORD": "0123456789abcdef",
    "MESSAGING_BROKER_PASSWORD": "fedcba9876543210",
    "MESSAGING_SECRETS_KEYS": "A" * 43 + "=",
    "FLOWER_BASIC_AUTH": "ops:secret",
}


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """The forms of Compose's interpolation that the file uses; a required variable that is not set is a KeyError."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, form, default = match["name"], match["form"], match["default"]
        return variables[name] if form == ":?" else variables.get(name) or default

    return re.sub(r"\$\$|\$\{(?P<name>\w+)(?P<form>:[?-])(?P<default>[^}]*)\}", value, text)


def environment_of(service: str, variables: Mapping[str, str] = CHOSEN) -> dict[str, str]:
    return {name: interpolate(text, variables) for name, text in SERVICES[service].get("environment", {}).items()}


def wait_until(condition: Callable[[], bool], what: Callable[[], str], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.1)


def test_the_file_fits_the_compose_schema() -> None:
    found = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    jsonschema.Draft7Validator(json.loads(found.read_text())).validate(COMPOSE)


def test_it_runs_the_parts_of_the_system() -> None:
    assert set(SERVICES) == {
        "postgres", "broker", "migrate", "worker-mail", "worker-sms", "worker-webhook", "worker-mail-request",
        "worker-mail-fetch", "worker-control", "worker-maintenance", "beat", "flower", "web", "mail",
    }  # fmt: skip
    workers = ("control", "mail", "mail-fetch", "mail-request", "maintenance", "sms", "webhook")
    assert ["beat", "flower", "migrate", "web", *(f"worker-{name}" for name in workers)] == OURS


def test_every_queue_has_a_worker_of_its_own() -> None:
    taken = [service["command"][3] for service in SERVICES.values() if "worker" in service.get("command", [])]
    assert sorted(taken) == sorted(QueueSettings().model_dump().values())


def test_no_secret_stands_in_it() -> None:
    secret = re.compile(r"PASSWORD|SECRET|AUTH|(?<!_BASE)_URL")
    values = [
        (name, str(value))
        for service in SERVICES.values()
        for name, value in service.get("environment", {}).items()
        if secret.search(name)
    ]
    assert values
    assert all(re.search(r"\$\{\w+:\?[^}]+\}", value) for _, value in values)


@pytest.mark.parametrize("missing", sorted(CHOSEN))
def test_it_does_not_start_without_its_secrets(missing: str) -> None:
    given = {name: value for name, value in CHOSEN.items() if name != missing}
    with pytest.raises(KeyError, match=missing):
        [environment_of(service, given) for service in SERVICES]


def test_either_broker_is_taken_by_a_variable() -> None:
    image = SERVICES["broker"]["image"]
    assert interpolate(image, {}) == "valkey/valkey:8"
    assert interpolate(image, {"MESSAGING_BROKER_IMAGE": "redis:7"}) == "redis:7"


@pytest.mark.parametrize("name", OURS)
def test_our_image_is_built_from_the_tree_and_runs_as_an_ordinary_user(name: str) -> None:
    build = SERVICES[name]["build"]
    recipe = build["dockerfile_inline"].splitlines()
    assert build["context"] == "."
    assert [line for line in recipe if line.startswith(("USER", "FROM"))][-1] == "USER messaging"
    sources = [word for line in recipe if line.startswith("COPY ") for word in line.split()[1:-1] if "=" not in word]
    assert all((ROOT / source).exists() for source in sources if not source.startswith("/"))


@pytest.mark.parametrize("name", OURS)
def test_a_container_may_do_little(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


@pytest.mark.parametrize("name", [name for name in OURS if name.startswith("worker-")])
def test_a_worker_has_time_to_end_what_it_sends(name: str) -> None:
    grace = re.fullmatch(r"(\d+)s", SERVICES[name]["stop_grace_period"])
    assert grace is not None
    assert int(grace[1]) >= DeliverySettings().stop_grace_seconds


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "migrate"])
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"]


class Service:
    """One of our services as a process: its command and environment, with this machine's places for the network's."""

    def __init__(self, name: str, folder: Path, database_url: str, redis_url: str) -> None:
        self._service = SERVICES[name]
        self._folder = folder
        self._log = folder / "log"
        flower_port, metrics_port = str(free_port()), str(free_port())
        self.flower_url = f"http://127.0.0.1:{flower_port}"
        self._replaced = {"/tmp": str(folder), "5555": flower_port, "8000": str(free_port())}
        places = {
            "MESSAGING_DATABASE_URL": database_url,
            "MESSAGING_REDIS_URL": redis_url,
            "MESSAGING_METRICS__PORT": metrics_port,
            "FLOWER_PORT": flower_port,
            "FLOWER_ADDRESS": "127.0.0.1",
            "TMPDIR": str(folder),
        }
        given = environment_of(name)
        assert {"MESSAGING_DATABASE_URL", "MESSAGING_REDIS_URL", "MESSAGING_SECRETS_KEYS"} <= set(given)
        self._environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            **given,
            **places,
        }
        self.process = self._start(self._here(self._service["command"]), self._log)

    def _here(self, command: list[str]) -> list[str]:
        words = [interpolate(word, CHOSEN) for word in command]
        for old, new in self._replaced.items():
            words = [word.replace(old, new) for word in words]
        return words

    def _start(self, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
        with log.open("ab") as file:
            return subprocess.Popen(
                command, env=self._environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )

    def is_healthy(self) -> bool:
        """What Docker would find out by the service's own check."""
        assert self.process.poll() is None, self.log()
        kind, *command = self._service["healthcheck"]["test"]
        words = self._here(command)
        return self._start(["sh", "-c", *words] if kind == "CMD-SHELL" else words, self._folder / "health").wait() == 0

    def log(self) -> str:
        return self._log.read_text()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def start_service(tmp_path: Path, valkey: Valkey, redis_client: "redis.Redis") -> Iterator[Callable[..., Service]]:
    started = []

    def start(name: str, database_url: str) -> Service:
        folder = tmp_path / name
        folder.mkdir()
        service = Service(name, folder, database_url, valkey.url)
        started.append(service)
        return service

    yield start
    for service in started:
        if service.process.poll() is None:
            service.process.kill()
            service.process.wait()


def test_migrate_brings_an_empty_database_up_to_date_and_ends(
    start_service: Callable[..., Service], postgres: Postgres
) -> None:
    postgres.create_database("compose")
    try:
        service = start_service("migrate", postgres.url("compose"))
        assert service.process.wait(60) == 0, service.log()
        engine = create_engine(postgres.url("compose"))
        assert schema.current(engine) == schema.head()
        engine.dispose()
    finally:
        postgres.drop_database("compose")


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_a_service_gets_healthy_and_ends_when_told(
    name: str, start_service: Callable[..., Service], database_url: str
) -> None:
    service = start_service(name, database_url)
    wait_until(service.is_healthy, service.log)
    assert service.stop() == 0, service.log()


def test_flower_tells_nothing_to_whoever_lacks_the_password(
    start_service: Callable[..., Service], database_url: str
) -> None:
    flower = start_service("flower", database_url)
    wait_until(flower.is_healthy, flower.log)
    for path in ("/", "/workers", "/tasks", "/api/workers", "/api/tasks", "/api/queues/length"):
        assert get(flower.flower_url + path) == 401
    assert get(flower.flower_url + "/api/workers", CHOSEN["FLOWER_BASIC_AUTH"]) == 200
    # Read only: nobody stops a worker by it.
    assert get(flower.flower_url + "/api/worker/shutdown/mail@here", CHOSEN["FLOWER_BASIC_AUTH"], "POST") == 403


def get(url: str, credentials: str | None = None, method: str = "GET") -> int:
    headers = {"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"} if credentials else {}
    request = urllib.request.Request(url, headers=headers, method=method, data=b"" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code


@pytest.mark.parametrize("server", ["valkey-server", "redis-server"])
def test_the_brokers_command_starts_either_server(server: str, tmp_path: Path) -> None:
    program = Program(valkey_program(), None) if server == "valkey-server" else require(server)
    programs, data = tmp_path / "bin", tmp_path / "data"
    for folder in (programs, data):
        folder.mkdir()
    (programs / server).symlink_to(program.path)
    port = free_port()
    shell, option, line = (interpolate(word, CHOSEN) for word in SERVICES["broker"]["command"])
    process = subprocess.Popen(
        [shell, option, line.replace("--dir /data", f"--dir {data} --port {port} --bind 127.0.0.1")],
        env={"PATH": f"{programs}:/usr/bin:/bin", **environment_of("broker"), **program.environment()},
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: is_listening(port), lambda: f"{server} does not listen")
        with redis.Redis(port=port, password=CHOSEN["MESSAGING_BROKER_PASSWORD"]) as client:
            assert client.config_get("maxmemory-policy", "appendonly", "save") == {
                "maxmemory-policy": "noeviction",
                "appendonly": "yes",
                "save": "",
            }
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
    finally:
        process.terminate()
        process.wait(30)


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
