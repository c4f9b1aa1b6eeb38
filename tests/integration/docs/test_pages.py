"""Every block of README and of docs runs: against a migrated database, with real commands and a real far end."""

import dataclasses
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from messaging.embedded import Valkey, free_port
from tests.conftest import FAR_END_MISSING
from tests.far_end.smtp_server import ScriptedSmtpServer
from tests.integration.docs.blocks import ROOT, Block, blocks, pages
from tests.integration.docs.sandbox import Sandbox
from tests.polling import eventually

PRELUDES = Path(__file__).parent / "preludes"

#: Ports that pages name, and that are others in a test.
MAIL_PORT, WEB_PORT = "1025", "8000"

#: The page whose workers and beat are started for real.
STARTS = "docs/quick-start.md"

#: What pages ask of the environment.
SECRETS = dict.fromkeys(
    ("SMTP_PASSWORD", "SHOP_SMTP_PASSWORD", "IMAP_PASSWORD", "TWILIO_AUTH_TOKEN", "OPERATOR_PASSWORD"),
    "a secret of nobody's",
)


@pytest.fixture(scope="module")
def mail_server() -> Iterator[ScriptedSmtpServer]:
    with ScriptedSmtpServer() as server:
        yield server


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where `messaging` commands are run from."""
    path = tmp_path_factory.mktemp("commands") / "socket"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, str(Path(__file__).with_name("commands.py")), str(path)]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield path
        process.terminate()


@contextmanager
def served(environment: dict[str, str], log: Path) -> Iterator[str]:
    """`messaging web` on a port of its own, which is answered."""
    port = free_port()
    argv = [str(Path(sys.executable).with_name("messaging")), "web", "--port", str(port)]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=environment, stdout=out, stderr=out, cwd=log.parent)
        try:
            eventually(lambda: _listens(port) or process.poll() is not None, 30, "the application to listen")
            assert process.poll() is None, log.read_text()
            yield str(port)
        finally:
            process.terminate()
            process.wait(20)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("page", pages())
def test_every_block_of_the_page_runs(
    page: str,
    database_url: str,
    valkey: Valkey,
    redis_client: "redis.Redis",
    secrets_key: str,
    mail_server: ScriptedSmtpServer,
    commands: Path,
    tmp_path: Path,
) -> None:
    found = list(blocks(page))
    if any("curl " in block.text for block in found) and not Path("/usr/bin/curl").exists():
        pytest.skip(f"{FAR_END_MISSING}: curl")
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "COLUMNS": "120",
        "MESSAGING_DATABASE_URL": database_url,
        "MESSAGING_REDIS_URL": valkey.url,
        "MESSAGING_SECRETS_KEYS": secrets_key,
        **SECRETS,
    }
    if page != STARTS:
        environment["MESSAGING_DISPATCH__NUDGE"] = ""
    folder = tmp_path / "page"
    folder.mkdir()
    environment["PYTHONPATH"] = os.pathsep.join([str(folder), str(ROOT)])
    prelude = PRELUDES / f"{Path(page).stem.replace('-', '_').lower()}.py"
    with Sandbox(folder, environment, commands=commands, runs_services=page == STARTS) as sandbox:
        ports = {MAIL_PORT: str(mail_server.port)}
        with served(environment, tmp_path / "log") if _asks_the_web(page) else _nothing() as web_port:
            if web_port:
                ports[WEB_PORT] = web_port
            if any(block.language == "python" for block in found):
                sandbox.run_python((PRELUDES / "everywhere.py").read_text(), "everywhere.py")
                if prelude.exists():
                    sandbox.run_python(prelude.read_text(), prelude.name)
            for block in found:
                sandbox.run(_moved(block, ports))


def _asks_the_web(page: str) -> bool:
    return f"localhost:{WEB_PORT}/" in (ROOT / page).read_text()


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _moved(block: Block, ports: Mapping[str, str]) -> Block:
    """The block with this test's ports in the place of those that the page names."""
    text = re.sub(rf"\b(?:{'|'.join(ports)})\b", lambda found: ports[found[0]], block.text)
    return dataclasses.replace(block, text=text)


def test_a_block_of_an_unknown_language_is_refused(tmp_path: Path) -> None:
    with Sandbox(tmp_path, {"PATH": os.environ["PATH"]}, commands=tmp_path, runs_services=False) as sandbox:
        with pytest.raises(AssertionError, match=r"page\.md:3: nothing here runs 'cobol'"):
            sandbox.run(Block("page.md", 3, "cobol", None, "STOP RUN.\n"))


def test_links_of_the_readme_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\((?!https?://)([^)#]+)(?:#[^)]*)?\)", text)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
