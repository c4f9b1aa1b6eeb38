"""Runs `messaging` commands by forking a process that has imported it already: an import is most of what one costs.

`python commands.py SOCKET` serves; `python commands.py SOCKET ARGUMENT...` is a command: its folder, environment and
three files go to a fork, whose exit code is its own.
"""

import json
import os
import socket
import sys
from importlib import import_module

#: A command line and an environment.
MAX_OCTETS = 1_000_000


def ask(path: str, arguments: list[str]) -> int:
    given = json.dumps([arguments, os.getcwd(), dict(os.environ)]).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MAX_OCTETS)
        connection.connect(path)
        socket.send_fds(connection, [given], [0, 1, 2])
        answer = connection.recv(16)
    return int(answer) if answer else 70


def serve(path: str) -> None:
    from messaging.cli import entry

    # Commands import it when they need it.
    import_module("messaging.api")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(path)
        listening.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listening.accept()
            with connection:
                given, files, _, _ = socket.recv_fds(connection, MAX_OCTETS, 3)
                child = os.fork()
                if child == 0:
                    _run(entry, files, *json.loads(given))
                _, status = os.waitpid(child, 0)
                for file in files:
                    os.close(file)
                connection.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(entry, files, arguments, folder, environment) -> None:  # type: ignore[no-untyped-def]
    code = 70
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        code = entry.run(arguments)
        sys.stdout.flush()
    finally:
        os._exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
    serve(sys.argv[1])
