"""A broker that answers and takes nothing: its memory is full, or it has become a replica."""

import pytest
import redis

from tests.acceptance.conftest import Start
from tests.acceptance.records import accept, assert_each_once, dead_letters, statuses, wait_for
from tests.polling import eventually, stays


def test_mails_accepted_while_the_brokers_memory_is_full_are_sent_once_when_it_is_not(start: Start) -> None:
    setup = start()
    with setup.redis as client:
        client.config_set("maxmemory-policy", "noeviction")
        client.config_set("maxmemory", "1")
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("probe", "1")
        accept(setup, 20)
        stays(lambda: statuses(setup) == {"PENDING": 20}, 2, "nothing is sent")
        client.config_set("maxmemory", "0")
    # One that was just connecting when the memory was full gives up, and is started again by its supervisor.
    for node in setup.workers:
        if not node.is_running():
            node.process.restart()
    wait_for(setup, {"SENT": 20}, 60)
    assert_each_once(setup, 20)
    assert dead_letters(setup) == []


def test_workers_of_a_broker_that_becomes_a_replica_end_and_go_on_once_started_again(start: Start) -> None:
    # Celery gives up over "UNBLOCKED force unblock from blocking operation"; a supervisor starts a worker anew.
    setup = start()
    workers = setup.workers
    with setup.redis as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        accept(setup, 20)
        eventually(lambda: not any(node.is_running() for node in workers), 30, "the workers end")
        assert [node.wait_exit(5) for node in workers] == [1] * len(workers)
        client.execute_command("REPLICAOF", "NO", "ONE")
    for node in workers:
        node.process.restart()
    wait_for(setup, {"SENT": 20}, 60)
    assert_each_once(setup, 20)
    assert dead_letters(setup) == []
