"""All of Celery's settings: broker, queues, routes, beat schedule, acknowledgement. Tests hold it to Celery's names.

The database redelivers, the broker does not: tasks are acknowledged as they start and nothing is prefetched, so what is
lost with a broker or a worker comes back by the lease (not claimed) or the sweep (claimed). One task is different, the
mail request: no row stands behind its message.
"""

from kombu import Exchange as _Exchange
from kombu import Queue as _Queue

from messaging.settings import load_settings as _load_settings

_settings = _load_settings()
_dispatch, _queues = _settings.dispatch, _settings.queues

# -- messages: pairs of ids and versions (a mail request alone holds content), as JSON and nothing else
accept_content = ["json"]
task_serializer = "json"
event_serializer = "json"
result_backend = None
task_ignore_result = True
timezone = "UTC"
enable_utc = True

# -- queues
task_default_queue = _queues.control
# As objects: Flower asks them for their names before the workers have told it of theirs, and fails on a mapping.
task_queues = [
    _Queue(name, _Exchange(name, type="direct"), routing_key=name)
    for name in (
        *(_queues.control, _queues.mail_send, _queues.sms_send, _queues.webhook_send),
        *(_queues.mail_request, _queues.mail_fetch, _queues.maintenance),
    )
]
# A misspelt `-Q` stops the start; it would consume from nowhere.
task_create_missing_queues = False
task_routes = {
    "messaging.dispatch": {"queue": _queues.control},
    "messaging.sweep": {"queue": _queues.control},
    "messaging.receipts": {"queue": _queues.control},
    "messaging.heartbeat": {"queue": _queues.control},
    "messaging.figures": {"queue": _queues.control},
    "messaging.batches": {"queue": _queues.control},
    "messaging.deliver_mail": {"queue": _queues.mail_send},
    "messaging.deliver_sms": {"queue": _queues.sms_send},
    "messaging.deliver_webhook": {"queue": _queues.webhook_send},
    "messaging.mail_request": {"queue": _queues.mail_request},
    "messaging.fetch_tick": {"queue": _queues.control},
    "messaging.fetch_mailbox": {"queue": _queues.mail_fetch},
    # Ticks come twice a second and must not wait for what takes an hour.
    "messaging.prune": {"queue": _queues.maintenance},
}
imports = (
    "tasks.dispatch",
    "tasks.deliver",
    "tasks.sweep",
    "tasks.receipts",
    "tasks.heartbeat",
    "tasks.figures",
    "tasks.batches",
    "tasks.mail_request",
    "tasks.fetch",
    "tasks.prune",
)

# -- beat: ticks expire, so that none pile up while no worker takes them; two beats do no harm
beat_schedule = {
    **{
        f"dispatch-{channel}": {
            "task": "messaging.dispatch",
            "schedule": _dispatch.interval_seconds,
            "args": (channel,),
            "options": {"expires": _dispatch.tick_expires_seconds},
        }
        for channel in ("mail", "sms", "webhook")
    },
    "sweep": {
        "task": "messaging.sweep",
        "schedule": _settings.sweeper.interval_seconds,
        "options": {"expires": _settings.sweeper.interval_seconds},
    },
    "receipts": {"task": "messaging.receipts", "schedule": 15.0, "options": {"expires": 15.0}},
    "fetch_tick": {"task": "messaging.fetch_tick", "schedule": 15.0, "options": {"expires": 15.0}},
    "heartbeat": {"task": "messaging.heartbeat", "schedule": 30.0, "options": {"expires": 30.0}},
    "figures": {"task": "messaging.figures", "schedule": 15.0, "options": {"expires": 15.0}},
    "batches": {"task": "messaging.batches", "schedule": 2.0, "options": {"expires": 2.0}},
    # Asked for all day: which of them begins the night's run the database decides.
    "prune": {"task": "messaging.prune", "schedule": 300.0, "options": {"expires": 300.0}},
}

# -- workers
worker_pool = "tasks.pool:WakingPool"
# A delivery or a fetch waits for a server or provider most of its time; one process a core, by the operator.
worker_concurrency = 8
task_acks_late = False
task_annotations = {
    # The broker keeps it until the mail is accepted, and repeats it after `visibility_timeout`. A worker that holds one
    # may end when its Redis restarts, hence a queue, and in production a worker, of its own. No events: it has content.
    "messaging.mail_request": {"acks_late": True, "send_events": False},
}
worker_disable_prefetch = True
worker_prefetch_multiplier = 1
# With nothing prefetched there is nothing to reduce after a reconnect.
worker_enable_prefetch_count_reduction = False
# A thread cannot be cancelled (nor a mail request be asked to); without the setting Celery warns at each reconnect.
worker_cancel_long_running_tasks_on_connection_loss = True
worker_consumer = "tasks.poison:PoisonConsumer"
worker_hijack_root_logger = False
worker_redirect_stdouts = False
# Seconds SIGQUIT and a second Ctrl-C wait for what is in flight.
worker_soft_shutdown_timeout = 10.0
# How operators watch: Flower lists the tasks with their results and pings the workers.
worker_send_task_events = True
worker_enable_remote_control = True

# -- broker
broker_url = _settings.resolved_broker_url
broker_connection_retry_on_startup = True
# A worker outlives any outage of its broker; by default Celery gives up after a hundred tries.
broker_connection_max_retries = None
broker_transport_options = {
    # Every process needs the same prefix, Flower too.
    "global_keyprefix": "msg:",
    "visibility_timeout": _settings.celery.visibility_timeout_seconds,
    # Seconds between two looks for messages whose time is over.
    "unacked_restore_interval": min(10, _settings.celery.visibility_timeout_seconds),
    "unacked_restore_throttle": 1,
    # Without these a peer that vanished silently would hold a publisher or a consumer for ever.
    "socket_connect_timeout": 5,
    "socket_timeout": 30,
    "socket_keepalive": True,
    "health_check_interval": 10,
    # Of a lazy connection, such as a tick uses to look at a queue: by default it tries for ever.
    "max_retries": 2,
    "interval_start": 0,
    "interval_step": 0.2,
    "interval_max": 0.5,
}
# A tick whose publish fails ends, and the rows are due again in seconds: no long retrying here.
task_publish_retry_policy = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5}

del _Exchange, _Queue, _load_settings, _settings, _dispatch, _queues
