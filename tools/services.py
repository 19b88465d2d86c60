"""Run Kafka and a schema registry as real processes on this machine, for tests and demonstrations.

Maven fetches them once. They use free loopback ports and need no root. `tools/kafka` and `tools/registry` are
the commands; tests import this module.

A service has a folder with its data, its log, its ports, and a lock. Its process holds the lock until it
ends.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, ClassVar

PATIENCE = 120.0
"""Seconds that a service may take to answer, or to end. A few are usual."""

FETCHING = 900.0
"""Seconds that Maven may take."""

PORTS = range(20000, 32000)
"""Ports below the range that systems give to clients.

A client that retries a closed port of its own range can connect to itself. A service that restarts then finds
its port in use.
"""

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


class Missing(Exception):
    """A program is not installed, or a package cannot be fetched."""


class Failed(Exception):
    """All parts are installed, but the service does not run."""


def home() -> Path:
    """Return the folder of packages that Maven fetched. Data folders are here by default."""
    named = os.environ.get("FLOWBUF_KAFKA_HOME")
    return Path(named).resolve() if named else Path(__file__).resolve().parent.parent / "build/kafka"


def find_java() -> str:
    folder = os.environ.get("JAVA_HOME")
    java = (folder and shutil.which("java", path=f"{folder}/bin")) or shutil.which("java")
    if java:
        return java
    raise Missing(
        "java is missing: apt-get install default-jre-headless, or https://adoptium.net (17 or newer)"
    )


def find_maven() -> str:
    if maven := shutil.which("mvn"):
        return maven
    raise Missing("mvn is missing: apt-get install maven, or https://maven.apache.org/download.cgi")


def run_maven(folder: Path, *arguments: str) -> None:
    command = [find_maven(), "-q", "-B", *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=FETCHING)
    except subprocess.TimeoutExpired:
        raise Missing(
            f"Maven has not fetched in {FETCHING:.0f} s what is needed: is the network slow?"
        ) from None
    if done.returncode:
        reason = next(
            (line for line in done.stdout.splitlines() if line.startswith("[ERROR]")), done.stderr.strip()
        )
        raise Missing(
            f"Maven cannot fetch what is needed; is the network there, or a mirror in settings.xml? {reason}"
        )


@contextmanager
def alone() -> Iterator[None]:
    """Hold a lock so that one Maven runs at a time. All clones on the machine share its repository."""
    repository = Path.home() / ".m2"
    repository.mkdir(exist_ok=True)
    with (repository / "flowbuf.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Java does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count: int) -> list[int]:
    shuffled = random.sample(PORTS, len(PORTS))
    return [port for port, _ in zip(filter(is_free, shuffled), range(count), strict=False)]


def hold(lock: IO[str], how: int = fcntl.LOCK_EX) -> bool:
    """Lock a file and return True, or return False if it is locked. Closing all its handles unlocks it."""
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait(done: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait until `done` returns True. Return False after `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


class Service:
    """A service in a folder.

    With `bound`, its process ends with the thread that started it (Linux only).
    """

    name: ClassVar[str]
    release: ClassVar[str]
    ports_needed: ClassVar[int] = 1

    def __init__(self, folder: Path | None = None, port: int | None = None, bound: bool = False) -> None:
        self.folder = folder.resolve() if folder else home() / self.name
        self.program = home() / self.release
        self.wanted_port = port
        self.bound = bound
        self.process: subprocess.Popen[bytes] | None = None

    # What a service says of itself --------------------------------------------------------------------------

    def fetch_into(self, folder: Path) -> None:
        raise NotImplementedError

    def prepare(self, java: str) -> tuple[list[str], dict[str, str]]:
        """Return the command and the variables to add to its environment."""
        raise NotImplementedError

    def greets(self) -> bool:
        """Return whether the service answers correctly at its port."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    # Files --------------------------------------------------------------------------------------------------

    @property
    def ports(self) -> list[int]:
        """Return the ports of the last start. A restart uses the same ports."""
        path = self.folder / "ports"
        return [int(port) for port in path.read_text().split()] if path.exists() else []

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def pid(self) -> Path:
        return self.folder / "pid"

    def is_running(self) -> bool:
        """Return whether the process runs or is being started. It may not answer yet."""
        path = self.folder / "lock"
        if not path.exists():
            return False
        with path.open("a") as lock:
            return not hold(lock, fcntl.LOCK_SH)  # several readers can ask at the same time

    def answers(self) -> bool:
        return bool(self.ports) and self.greets()

    def fetch(self) -> None:
        """Fetch the packages of the service unless they are present."""
        if self.program.exists():
            return
        find_maven()
        home().mkdir(parents=True, exist_ok=True)
        with alone(), tempfile.TemporaryDirectory(dir=home()) as folder:
            if not self.program.exists():
                fetched = Path(folder) / self.release
                fetched.mkdir()
                self.fetch_into(fetched)
                fetched.rename(self.program)

    # Starting -----------------------------------------------------------------------------------------------

    def start(self) -> str:
        """Start the service unless it runs, wait until it answers, and return its address."""
        java = find_java()
        self.fetch()
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a") as lock:
            if not wait(lambda: hold(lock) or self.answers()):
                raise Failed(f"{self.name} runs and does not answer: see {self.log}")
            if hold(lock):
                self.pid.unlink(missing_ok=True)
                self.choose_ports()
                self.launch(java, lock)
        if self.wanted_port not in (None, self.ports[0]):
            raise Failed(f"{self.name} runs at {self.address}: stop it first, or leave out --port")
        return self.address

    def choose_ports(self) -> None:
        ports = self.ports or free_ports(self.ports_needed)
        if self.wanted_port:
            ports[0] = self.wanted_port
        if taken := [port for port in ports if not is_free(port)]:
            raise Failed(
                f"port {taken[0]} is taken by another program: stop that, or choose another by --port"
            )
        (self.folder / "ports").write_text(" ".join(map(str, ports)))

    def launch(self, java: str, lock: IO[str]) -> None:
        """Start the process. It inherits the lock, which is released when the process ends."""
        command, environment = self.prepare(java)
        if self.bound and (setpriv := shutil.which("setpriv")):
            command = [setpriv, "--pdeathsig", "KILL", *command]
        with self.log.open("ab") as log:
            start = log.tell()
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                pass_fds=[lock.fileno()],
                start_new_session=True,
            )
        try:
            process = self.process
            self.pid.write_text(str(process.pid))
            wait(lambda: process.poll() is not None or self.answers())
            if process.poll() is not None or not self.answers():
                raise Failed(f"{self.name} does not start: {self.complaint(start)}")
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise

    def complaint(self, start: int) -> str:
        """Return the last lines of the log after byte `start`, or the cause if it is known."""
        text = self.log.read_bytes()[start:].decode(errors="replace")
        if "UnsupportedClassVersionError" in text:
            return "Java is too old, 17 or newer is needed (apt-get install default-jre-headless)"
        lines = [line for line in text.splitlines() if not line.startswith("\tat ")]  # without Java's stack
        return "\n".join([str(self.log), *lines[-5:]])

    # Ending -------------------------------------------------------------------------------------------------

    def stop(self) -> bool:
        """Stop the service with SIGTERM. Return whether it ran."""
        return self.end(signal.SIGTERM)

    def kill(self) -> bool:
        """Kill the service with SIGKILL, as a crash would. Return whether it ran."""
        return self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> bool:
        wait(lambda: self.pid.exists() or not self.is_running())
        if not self.is_running():
            return False
        with suppress(ProcessLookupError):
            os.kill(int(self.pid.read_text()), number)
        if not wait(lambda: not self.is_running()):
            raise Failed(f"{self.name} does not end: see {self.log}")
        self.pid.unlink(missing_ok=True)
        if self.process:
            self.process.wait()
        return True


class Kafka(Service):
    """A single Kafka broker that is its own controller.

    Clients create the topics. Messages are never deleted.
    """

    name = "broker"
    release = "kafka-4.3.1"
    ports_needed = 2
    artifacts = ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
    options = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true")

    def fetch_into(self, folder: Path) -> None:
        """Fetch the jars and create an empty data folder. Creating it takes as long as a start."""
        dependency = (
            "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
        )
        dependencies = "".join(dependency.format(*artifact.split(":")) for artifact in self.artifacts)
        (folder / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>broker</artifactId>"
            f"<version>1</version><packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
        )
        run_maven(folder, f"{PLUGIN}:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime")
        self.write_properties(folder / "format.properties", folder / "data", [PORTS[0], PORTS[1]])
        tool = [
            "kafka.tools.StorageTool",
            "format",
            "--cluster-id=Zmxvd2J1Zi1sb2NhbC1rYQ",
            "-c",
            "format.properties",
        ]
        command = [find_java(), *self.options, "-cp", "jars/*", *tool]
        done = subprocess.run(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            raise Failed(f"Kafka's data folder cannot be made: {done.stdout}")

    def prepare(self, java: str) -> tuple[list[str], dict[str, str]]:
        if not (self.folder / "data").exists():
            copied = self.folder / "data.new"
            shutil.rmtree(copied, ignore_errors=True)
            shutil.copytree(self.program / "data", copied)
            copied.rename(self.folder / "data")
        self.write_properties(self.folder / "server.properties", self.folder / "data", self.ports)
        heap = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC"]
        classes = ["-cp", f"{self.program}/jars/*", "kafka.Kafka", "server.properties"]
        return [java, *heap, *self.options, *classes], {}

    def write_properties(self, path: Path, data: Path, ports: list[int]) -> None:
        broker, controller = (f"127.0.0.1:{port}" for port in ports)
        internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "listeners": f"PLAINTEXT://{broker},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{broker}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{controller}",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": data,
            "log.retention.ms": -1,  # messages of old captures have old timestamps
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": 0,
            "broker.heartbeat.interval.ms": 500,
            "broker.session.timeout.ms": 3000,  # a killed broker can only rejoin after this time
            **{f"{topic}.replication.factor": 1 for topic in internal},
            **{f"{topic}.num.partitions": 1 for topic in internal},
            **{f"{topic}.min.isr": 1 for topic in internal[1:]},
        }
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def greets(self) -> bool:
        """Return whether the metadata lists a broker. It lists none for a while after the port opens."""
        header = struct.pack(">hhih", 3, 1, 1, -1)  # Metadata, version 1, correlation id 1, no client id
        request = header + struct.pack(">i", 0)  # of no topics
        with (
            suppress(OSError, struct.error),
            socket.create_connection(("127.0.0.1", self.ports[0]), 5) as connection,
        ):
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as response:
                _, correlation, brokers = struct.unpack(">iii", response.read(12))
            return bool(correlation == 1 and brokers > 0)
        return False


class Registry(Service):
    """A schema registry with Confluent's protocol. It keeps schemas in memory and loses them when it ends."""

    name = "registry"
    release = "apicurio-registry-2.6.13"
    artifact = "io.apicurio:apicurio-registry-app:2.6.13.Final:tar.gz:all"

    def fetch_into(self, folder: Path) -> None:
        run_maven(folder, f"{PLUGIN}:unpack", f"-Dartifact={self.artifact}", f"-DoutputDirectory={folder}")

    def prepare(self, java: str) -> tuple[list[str], dict[str, str]]:
        (jar,) = self.program.glob("*-runner.jar")
        environment = {"QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(self.ports[0])}
        return [java, "-Xmx512m", "-XX:+UseSerialGC", "-jar", str(jar)], environment

    def greets(self) -> bool:
        with (
            suppress(OSError, ValueError),
            urllib.request.urlopen(f"{self.address}/subjects", timeout=5) as response,
        ):
            return isinstance(json.load(response), list)
        return False

    @property
    def address(self) -> str:
        return f"http://{super().address}/apis/ccompat/v7"


# The command ------------------------------------------------------------------------------------------------


def parse(service: type[Service], arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=service.__doc__)
    parser.add_argument(
        "action", choices=["start", "stop", "kill", "restart", "status"], help="kill is SIGKILL"
    )
    parser.add_argument(
        "--port", type=int, help="the port; without it a free one, the same at each start in a folder"
    )
    parser.add_argument("--folder", type=Path, help=f"where data are, otherwise {home() / service.name}")
    return parser.parse_args(arguments)


def note(text: str) -> None:
    print(text, file=sys.stderr)


def act(action: str, service: Service) -> int:
    """Run an action and return the exit status. Standard output has only the address."""
    if action in ("stop", "kill", "restart"):
        ended = service.end(signal.SIGKILL if action == "kill" else signal.SIGTERM)
        note(f"{service.name} has ended" if ended else f"{service.name} was not running")
    if action in ("start", "restart"):
        if not service.program.exists():
            note(f"fetching {service.release} into {service.program}")
        print(service.start())
        note(f"{service.name} runs, in {service.folder}")
    if action == "status":
        running = service.is_running() and service.answers()
        if running:
            print(service.address)
        note(f"{service.name} {'runs' if running else 'is not running'}, in {service.folder}")
        return 0 if running else 1
    return 0


def main(service: type[Service], arguments: list[str] | None = None) -> None:
    """Run the command of a service. An interrupt also ends the processes that the command started."""
    options = parse(service, arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(act(options.action, service(options.folder, options.port)))
    except (Missing, Failed) as error:
        sys.exit(f"{service.name}: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
