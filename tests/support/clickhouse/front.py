"""Serve ClickHouse's HTTP interface, as far as flowbuf uses it, with the engine of chdb in this process.

No server can be installed for tests. Rows, types and insert tokens are those of the real engine. Users and
other features of a server are missing.

    python tests/support/clickhouse/front.py FOLDER

The program prints its address. An INSERT is in `query`, with its data as the body; other statements are the
body. POST /trouble?kind=N makes the next N inserts fail. `busy` returns a temporary error and inserts
nothing. `gateway` is the error of a proxy, and inserts nothing. `moved` is a redirect, and inserts nothing.
`lost` inserts, then closes the connection without an answer. `cut` closes it within the answer. `idle` closes
it after the answer. `held` inserts and never answers.
/inserts returns the number of inserts that were done.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from flowbuf.clickhouse import Local
from flowbuf.errors import QueryError
from flowbuf.targets.clickhouse import literal

_FORM = "FORMAT ArrowStream"
_OF_HTTP = {"query", "database", "wait_end_of_query"}
_OF_PROXY = {"gateway": 502, "moved": 302}


class Database(Local):
    """The engine with the text of results, in the format that the statement names."""

    def read(self, sql: str) -> bytes:
        return self._run(sql, "TabSeparated")


class Front(ThreadingHTTPServer):
    """One engine for all requests, which take turns."""

    def __init__(self, database: Database, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.database = database
        self.folder = folder
        self.turn = threading.Lock()
        self.troubles: Counter[str] = Counter()
        self.inserts = 0

    def trouble(self) -> str:
        """Return the failure to simulate for this insert."""
        for kind in [kind for kind, left in self.troubles.items() if left > 0]:
            self.troubles[kind] -= 1
            return kind
        return ""

    def insert(self, sql: str, settings: dict[str, str], body: bytes) -> None:
        clause = ", ".join(f"{name} = {literal(value)}" for name, value in settings.items())
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            file.write(body)
            file.flush()
            into = sql.removesuffix(_FORM)
            self.database.execute(f"{into} FROM INFILE {literal(file.name)} SETTINGS {clause} {_FORM}")
        self.inserts += 1


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Front

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = urlsplit(self.path)
        given = dict(parse_qsl(url.query))
        if url.path == "/trouble":
            self.server.troubles.update({kind: int(times) for kind, times in given.items()})
            self.answer(200, b"")
        elif url.path == "/inserts":
            self.answer(200, str(self.server.inserts).encode())
        elif "query" in given:
            self.insert(
                given.pop("query"),
                {name: value for name, value in given.items() if name not in _OF_HTTP},
                body,
            )
        else:
            self.query(body.decode())

    def insert(self, sql: str, settings: dict[str, str], body: bytes) -> None:
        with self.server.turn:
            trouble = self.server.trouble()
            if trouble == "busy":
                self.answer(500, b"Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)", 252)
                return
            if trouble in _OF_PROXY:
                self.answer(_OF_PROXY[trouble], b"")
                return
            try:
                self.server.insert(sql, settings, body)
            except QueryError as error:
                self.fail(error)
                return
        if trouble == "held":
            time.sleep(3600)
        elif trouble == "lost":
            self.drop()
        elif trouble == "cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-ClickHouse-Progress: {}\r\n")
            self.drop()
        else:
            self.answer(200, b"")
            if trouble == "idle":
                self.drop()

    def drop(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def query(self, sql: str) -> None:
        with self.server.turn:
            try:
                rows = self.server.database.read(sql)
            except QueryError as error:
                self.fail(error)
                return
        self.answer(200, rows)

    def fail(self, error: QueryError) -> None:
        code = str(error).partition("Code: ")[2].partition(".")[0]
        self.answer(500, str(error).encode(), int(code) if code.isdigit() else 1000)

    def answer(self, status: int, body: bytes, code: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", f"http://{self.headers['Host']}/inserts")
        if code:
            self.send_header("X-ClickHouse-Exception-Code", str(code))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


def main() -> None:
    folder = Path(sys.argv[1])
    with Database(folder / "database") as database, Front(database, folder) as front:
        print(f"http://127.0.0.1:{front.server_port}", flush=True)
        front.serve_forever()


if __name__ == "__main__":
    main()
