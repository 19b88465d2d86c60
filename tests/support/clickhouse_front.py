"""Serve ClickHouse's HTTP interface, as far as flowbuf uses it, with the engine of chdb in this process.

No server can be installed for tests. Rows, types and insert tokens are those of the real engine. Users and
other features of a server are missing.

    python tests/support/clickhouse_front.py FOLDER

The program prints its address. An INSERT is in `query`, with its data as the body; other statements are the
body. POST /trouble?kind=N makes the next N inserts fail. `busy` returns a temporary error and inserts
nothing. `lost` inserts, then closes the connection without an answer. `held` inserts and never answers.
/inserts returns the number of inserts that were done.
"""

from __future__ import annotations

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
_OF_HTTP = {"query", "database", "user", "password", "wait_end_of_query", "default_format"}


class Front(ThreadingHTTPServer):
    """One engine for all requests, which take turns."""

    def __init__(self, database: Local, folder: Path) -> None:
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
            self.answer(200, "")
        elif url.path == "/inserts":
            self.answer(200, str(self.server.inserts))
        elif given.get("query", "").startswith("SELECT"):
            self.query(given["query"])
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
                self.answer(500, "Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)", 252)
                return
            try:
                self.server.insert(sql, settings, body)
            except QueryError as error:
                self.fail(error)
                return
        if trouble == "held":
            time.sleep(3600)
        elif trouble == "lost":
            self.close_connection = True
            self.connection.close()
        else:
            self.answer(200, "")

    def query(self, sql: str) -> None:
        with self.server.turn:
            try:
                rows = self.server.database.query(sql).to_pylist()
            except QueryError as error:
                self.fail(error)
                return
        self.answer(200, "".join("\t".join(map(str, row.values())) + "\n" for row in rows))

    def fail(self, error: QueryError) -> None:
        code = str(error).partition("Code: ")[2].partition(".")[0]
        self.answer(500, str(error), int(code) if code.isdigit() else 1000)

    def answer(self, status: int, text: str, code: int = 0) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-ClickHouse-Exception-Code", str(code))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        pass


def main() -> None:
    folder = Path(sys.argv[1])
    with Local(folder / "database") as database, Front(database, folder) as front:
        print(f"http://127.0.0.1:{front.server_port}", flush=True)
        front.serve_forever()


if __name__ == "__main__":
    main()
