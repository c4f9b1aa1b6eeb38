"""Metrics of several processes add up, and gauges of dead ones are forgotten. Each process is a real one."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from messaging import metrics
from messaging.errors import ConfigurationError

ROOT = Path(__file__).parents[2]
URL = "postgresql://user@db.example/messaging"


def run(code: str, folder: Path, *, before: str = "") -> str:
    """Run `code` in a process that shares its metrics in `folder`."""
    script = f"""
    {before}
    from messaging import metrics
    metrics.use_directory({str(folder)!r}, database_url={URL!r}, owns_process=True)
    {code}
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line.strip() for line in textwrap.dedent(script).splitlines())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOW = "print(metrics.exposition().decode())"


def test_counts_of_all_processes_add_up_also_of_dead_ones(tmp_path: Path) -> None:
    for count in (2, 3):
        run(f"metrics.sent('mail', 'smtp', {count})", tmp_path)
    assert 'messaging_sent_total{channel="mail",provider="smtp"} 5.0' in run(SHOW, tmp_path)


def test_a_counter_is_told_over_all_labels_that_are_not_given(tmp_path: Path) -> None:
    run("metrics.released('mail', 'hold'); metrics.released('mail', 'old'); metrics.released('sms', 'old')", tmp_path)
    asked = "messaging_released_total"
    counts = f"print(metrics.count_of('{asked}', channel='mail'), metrics.count_of('{asked}', reason='old'))"
    assert run(counts, tmp_path).split() == ["2", "2"]


def test_a_gauge_is_the_newest_measurement_of_a_living_process(tmp_path: Path) -> None:
    run("metrics.due_records('mail', 900)", tmp_path)
    shown = run(f"metrics.due_records('mail', 7); {SHOW}", tmp_path)
    assert 'messaging_due_records{channel="mail"} 7.0' in shown
    assert "messaging_due_records{" not in run(SHOW, tmp_path)


def test_a_program_that_imported_prometheus_client_first_shares_all_the_same(tmp_path: Path) -> None:
    run("metrics.promoted('mail', 4)", tmp_path, before="import prometheus_client")
    assert 'messaging_promoted_total{channel="mail"} 4.0' in run(SHOW, tmp_path)


def test_every_metric_has_its_name_and_labels(tmp_path: Path) -> None:
    shown = run(
        """
        metrics.accepted('mail', 2); metrics.sent('mail', ''); metrics.partial('mail', 'smtp')
        metrics.failed('mail', 'smtp', 'retry'); metrics.lost_updates('mail', 'claim')
        metrics.late_outcomes('mail', 'sent'); metrics.released('mail', 'hold'); metrics.promoted('mail')
        metrics.swept('mail', 'retry'); metrics.pruned('bodies', 2); metrics.poison('UNDECODABLE')
        metrics.send_seconds('mail', 'smtp', 0.1)
        metrics.due_to_sent_seconds('mail', 'smtp', 1); metrics.dispatch_lag('mail', 0.2)
        metrics.due_records('mail', 1); metrics.overdue_records('mail', 1); metrics.oldest_due('mail', 1)
        metrics.oldest_overdue('mail', 1); metrics.oldest_transaction(1)
        metrics.rate_limited('mail', 'minute'); metrics.quota('mail', 'charged')
        metrics.received('BOUNCE'); metrics.fetch_failures('IMAPS'); metrics.link('BOUNCE', 'linked')
        """
        + SHOW,
        tmp_path,
    )
    samples = {line.rpartition(" ")[0] for line in shown.splitlines() if line and not line.startswith("#")}
    assert {s for s in samples if "_bucket" not in s and "_sum" not in s} == {
        'messaging_accepted_total{channel="mail"}',
        'messaging_sent_total{channel="mail",provider="unknown"}',
        'messaging_partial_total{channel="mail",provider="smtp"}',
        'messaging_failed_total{channel="mail",outcome="retry",provider="smtp"}',
        'messaging_lost_updates_total{channel="mail",step="claim"}',
        'messaging_late_outcomes_total{channel="mail",result="sent"}',
        'messaging_released_total{channel="mail",reason="hold"}',
        'messaging_promoted_total{channel="mail"}',
        'messaging_swept_total{channel="mail",result="retry"}',
        'messaging_pruned_total{kind="bodies"}',
        'messaging_rate_limited_total{channel="mail",result="minute"}',
        'messaging_quota_total{channel="mail",result="charged"}',
        'messaging_poison_total{event_type="UNDECODABLE"}',
        'messaging_received_total{mail_type="BOUNCE"}',
        'messaging_link_total{result="linked",type="BOUNCE"}',
        'messaging_fetch_failures_total{protocol="IMAPS"}',
        'messaging_send_seconds_count{channel="mail",provider="smtp"}',
        'messaging_due_to_sent_seconds_count{channel="mail",provider="smtp"}',
        'messaging_dispatch_lag_seconds_count{channel="mail"}',
        'messaging_due_records{channel="mail"}',
        'messaging_overdue_records{channel="mail"}',
        'messaging_oldest_due_seconds{channel="mail"}',
        'messaging_oldest_overdue_seconds{channel="mail"}',
        "messaging_oldest_transaction_seconds",
    }


def test_a_directory_that_cannot_be_used_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(metrics.DIRECTORY_VARIABLE, "")
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigurationError, match=r"METRICS__DIRECTORY: .*file"):
            metrics.use_directory(str(path), database_url=URL)


def test_the_temporary_directory_is_the_same_for_one_database_and_its_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = []
    for url in (URL, "postgresql+psycopg://other:pw@db.example/messaging", "postgresql://user@db.example/shop"):
        monkeypatch.setenv(metrics.DIRECTORY_VARIABLE, "")
        found.append(metrics.use_directory("", database_url=url))
    assert found[0] == found[1] != found[2]
    assert found[0].stat().st_mode & 0o777 == 0o700


def test_a_directory_that_was_cleaned_away_is_made_again(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    code = f"import shutil; shutil.rmtree({str(folder)!r}); metrics.sent('mail', 'smtp', 3); {SHOW}"
    assert 'messaging_sent_total{channel="mail",provider="smtp"} 3.0' in run(code, folder)


def test_counting_never_raises(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    run(
        f"""
        folder = {str(folder)!r}
        import shutil; shutil.rmtree(folder); open(folder, "w").close()
        for _ in range(2): metrics.accepted('mail'); metrics.dispatch_lag('mail', 1.0); metrics.oldest_transaction(1.0)
        """,
        folder,
    )
