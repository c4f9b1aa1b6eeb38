"""A short run of the coverage-guided fuzzer over the project's own mails, where atheris is installed."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_no_mutation_of_a_mail_raises_or_takes_long(tmp_path: Path) -> None:
    mails, learnt, found = (tmp_path / name for name in ("mails", "learnt", "found"))
    for folder in (mails, learnt, found):
        folder.mkdir()
    for number, mail in enumerate(sorted((ROOT / "tests" / "data").rglob("*.eml"))):
        shutil.copy(mail, mails / f"{number}.eml")
    options = [
        "-max_total_time=10",
        "-max_len=20000",
        "-rss_limit_mb=1024",
        "-timeout=20",
        f"-artifact_prefix={found}/",
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.unit.receive.fuzzer", *options, str(learnt), str(mails)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert "DONE" in ended.stderr or "Done" in ended.stderr
    assert not list(found.iterdir())
