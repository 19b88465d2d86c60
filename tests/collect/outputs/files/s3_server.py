"""A real S3 server on this machine (versitygw), and a proxy that cuts its connections."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tools.services import PATIENCE, free_ports, wait

ROOT = Path(__file__).parents[4]
KEY, SECRET = "flowbuf", "key-of-the-test"
BUCKET = "bucket"


def find_versitygw() -> str:
    """Return the path of the server. Skip the test if it is not installed."""
    named = os.environ.get("FLOWBUF_VERSITYGW") or shutil.which("versitygw")
    built = ROOT / "build/bin/versitygw"
    if named or built.exists():
        return named or str(built)
    pytest.skip("versitygw is not installed: make s3-server (Go), or set FLOWBUF_VERSITYGW to its path")


class S3Server:
    """A server with one bucket. Its port and data stay the same when it is started again."""

    def __init__(self, folder: Path) -> None:
        self.program = find_versitygw()
        self.folder = folder
        self.port = free_ports(1)[0]
        for name in (f"buckets/{BUCKET}", "attributes"):
            (folder / name).mkdir(parents=True)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.program, "--port", f"127.0.0.1:{self.port}", "posix"),
                    *("--sidecar", self.folder / "attributes", self.folder / "buckets"),
                ],
                env={**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET},
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        assert wait(self.accepts, PATIENCE), (self.folder / "log").read_text()

    def accepts(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def uri(self, prefix: str, credentials: str = "", port: int = 0) -> str:
        endpoint = f"endpoint_override=127.0.0.1:{port or self.port}&scheme=http&region=us-east-1"
        return f"s3://{credentials}{BUCKET}/{prefix}?{endpoint}"


class CuttingProxy:
    """A proxy of a server that closes a connection when a request contains certain bytes.

    Attributes:
        port: Its port.
        cuts: Number of closed connections.
        active: Set to False to pass everything on.
    """

    def __init__(self, server: S3Server, trigger: bytes) -> None:
        self.cuts = 0
        self.active = True
        self._server = server
        self._trigger = trigger
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._listener.accept()[0]
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self._server.port)) as server:
            answers = threading.Thread(target=self._pass, args=(server, client))
            answers.start()
            self._pass(client, server)
            answers.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.active and self._trigger in data:
                    self.cuts += 1
                    break
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
