"""The PostgreSQL and Valkey that the demo and the tests start for themselves, from programs inside Python wheels.

Children of this process, on 127.0.0.1 only, with a password: nothing is installed, no root is needed, and they end with
their owner however it ends. Not for production. Needs the extra `embedded`, whose exact versions it relies on.
"""

from messaging.embedded.postgres import Postgres
from messaging.embedded.server import free_port
from messaging.embedded.valkey import Valkey

__all__ = ["Postgres", "Valkey", "free_port"]
