"""Commands connect to a broker that requires TLS and a password."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.broker import Broker, need_clients
from tests.support.command import flowbuf as run
from tests.support.command import generated, write
from tests.support.consuming import notes
from tests.support.producing import decode
from tools import services

pytestmark = pytest.mark.slow  # it starts a broker of its own, and refused clients retry until a time limit

FLOWS = 500
PASSWORD = "hunter2-of-nobody"
STORE = "password-of-the-store"


class Guarded(services.Kafka):
    """A broker with a third listener, which requires TLS and a login. Its key is in the folder."""

    ports_needed = 3

    def write_properties(self, path: Path, data: Path, ports: list[int]) -> None:
        super().write_properties(path, data, ports[:2])
        if len(ports) < 3:  # the step that formats the data folder has two ports
            return
        plain, controller, guarded = (f"127.0.0.1:{port}" for port in ports)
        login = "org.apache.kafka.common.security.plain.PlainLoginModule"
        settings = {
            "listeners": f"PLAINTEXT://{plain},CONTROLLER://{controller},GUARDED://{guarded}",
            "advertised.listeners": f"PLAINTEXT://{plain},GUARDED://{guarded}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,GUARDED:SASL_SSL",
            "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": f'{login} required user_collector="{PASSWORD}";',
            "listener.name.guarded.ssl.keystore.location": self.folder / "keys.p12",
            "listener.name.guarded.ssl.keystore.type": "PKCS12",
            "listener.name.guarded.ssl.keystore.password": STORE,
        }
        with path.open("a") as file:  # the last of several settings of a name counts
            file.writelines(f"{name}={value}\n" for name, value in settings.items())


def make_certificate(folder: Path) -> Path:
    """Create a key with a self-signed certificate for 127.0.0.1, and return the path of the certificate."""
    keytool = shutil.which("keytool") or Path(services.find_java()).resolve().parent / "keytool"
    store = (
        "-alias",
        "broker",
        "-keystore",
        folder / "keys.p12",
        "-storetype",
        "PKCS12",
        "-storepass",
        STORE,
    )
    names = ("-dname", "CN=127.0.0.1", "-ext", "san=ip:127.0.0.1", "-ext", "bc:c=ca:true")
    subprocess.run([keytool, "-genkeypair", "-keyalg", "RSA", "-validity", "30", *names, *store], check=True)
    certificate = folder / "certificate.pem"
    subprocess.run([keytool, "-exportcert", "-rfc", "-file", certificate, *store], check=True)
    return certificate


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    need_clients()
    folder = tmp_path_factory.mktemp("guarded")
    try:
        make_certificate(folder)
    except services.Missing as reason:
        pytest.skip(str(reason))
    broker = Broker(folder, Guarded)
    broker.start()
    yield broker
    broker.kill()


def guarded_address(guarded: Broker) -> str:
    return f"127.0.0.1:{guarded.service.ports[2]}"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("capture") / "capture.pcap", generated("ipfix", FLOWS))


def write_settings(guarded: Broker, path: Path, changed: Mapping[str, str | None]) -> Path:
    """Write the settings of an accepted client, with some changed. Settings of None are omitted."""
    settings: dict[str, str | None] = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(guarded.service.folder / "certificate.pem"),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "collector",
        "sasl.password": PASSWORD,
        **changed,
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value is not None))
    return path


def test_flows_are_produced_and_consumed(guarded: Broker, capture: Path, tmp_path: Path) -> None:
    topic = guarded.make_topic()
    where = ("--kafka", guarded_address(guarded), "--topic", topic)
    config = write_settings(guarded, tmp_path / "client.properties", {})
    sent = run("produce", capture, *where, "--kafka-config", config)
    assert (sent.exit_code, sent.stderr) == (0, "")
    assert b"".join(guarded.values(topic)) == decode(capture)
    # The consumer finds the schema by its hash in the topic of descriptions. This client must log in, too.
    read = run("consume", *where, "--kafka-config", config, "--group", "reader", "--until-end", "-f", "jsonl")
    assert (read.exit_code, notes(read)) == (0, [])
    assert len([json.loads(line) for line in read.stdout.splitlines()]) == FLOWS


@pytest.mark.parametrize(
    ("command", "changed", "error"),
    [
        ("produce", {"sasl.password": f"{PASSWORD}-of-another"}, "Authentication failed"),
        ("consume", {"sasl.password": f"{PASSWORD}-of-another"}, "Authentication failed"),
        ("produce", {"sasl.username": "nobody"}, "Authentication failed"),
        ("produce", {"ssl.ca.location": None}, "certificate verify failed"),
        ("consume", {"ssl.ca.location": None}, "certificate verify failed"),
        ("produce", {"security.protocol": "SASL_PLAINTEXT"}, "security.protocol"),
        ("produce", {"security.protocol": "PLAINTEXT"}, "security.protocol"),
    ],
)
def test_refused_clients_report_the_reason(
    guarded: Broker, capture: Path, tmp_path: Path, command: str, changed: dict[str, str | None], error: str
) -> None:
    config = write_settings(guarded, tmp_path / "client.properties", changed)
    inputs = [capture] if command == "produce" else []
    where = ("--kafka", guarded_address(guarded), "--topic", "any", "--timeout", 3)
    result = run(command, *inputs, *where, "--kafka-config", config)
    assert result.exit_code == 1
    last = result.stderr.splitlines()[-1]
    assert "no broker answered in 3 s: " in last
    assert error in last
    assert PASSWORD not in result.output + result.stderr + repr(result.exception)
