"""Only datagrams of allowed sources are decoded, and the others are counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowbuf
from flowbuf._core import AccessList
from flowbuf.collect.config import CollectConfig, OutputConfig
from flowbuf.collect.intake import IntakeCounters
from flowbuf.collect.service import Service
from flowbuf.collect.totals import format_totals
from flowbuf.errors import ConfigError
from flowbuf.networks import parse_network, to_prefix, to_prefixes
from tests.collect.streams.peers import connect, sessions_of, wait_for_end
from tests.collect.test_collector import DATA_SET, LEARNED, LOCAL, flows5
from tests.collect.test_service import ListOutput, address_of, running
from tests.strategies.basics import uints
from tests.support.live import send, wait_until

Network = IPv4Network | IPv6Network


def check_datagrams(counters: IntakeCounters) -> None:
    """Each datagram that was received is in exactly one place."""
    places = counters.denied + counters.decoded + counters.waiting_datagrams + counters.lost_datagrams
    assert counters.received == places


def network_of(address: IPv4Address | IPv6Address, bits: int) -> Network:
    """Return the network of the first `bits` bits of an address, or of all of them if it has fewer."""
    network = f"{address}/{min(bits, address.max_prefixlen)}"
    kind = IPv4Network if address.version == 4 else IPv6Network
    return kind(network, strict=False)


# Few distinct addresses, so that networks often contain each other and the addresses.
ipv4_addresses = st.builds(IPv4Address, uints(4) | st.integers(0xC0000200, 0xC00002FF))
ipv6_addresses = st.builds(
    IPv6Address, uints(16) | st.integers(0xFFFF << 32, (0xFFFF << 32) + 3) | st.integers(0, 9)
)
addresses = ipv4_addresses | ipv6_addresses
networks = st.lists(st.builds(network_of, addresses, st.integers(0, 128)), max_size=8)


@given(networks, networks, st.lists(addresses, min_size=1))
def test_access_lists_agree_with_ipaddress(
    allow: list[Network], deny: list[Network], sources: list[IPv4Address | IPv6Address]
) -> None:
    texts = [[str(network) for network in each] for each in (allow, deny)]
    access = AccessList(*map(to_prefixes, texts))
    allowed, denied = ([parse_network(text) for text in each] for each in texts)
    for source in [*sources, *(network.network_address for network in (*allow, *deny))]:
        mapped = source.ipv4_mapped if isinstance(source, IPv6Address) else None
        address = mapped or source
        admitted = not allowed or any(address in network for network in allowed)
        assert access.admits(str(source)) == (admitted and not any(address in network for network in denied))


def test_networks_of_mapped_addresses_are_those_of_ipv4() -> None:
    assert parse_network("::ffff:192.0.2.0/120") == IPv4Network("192.0.2.0/24")
    assert parse_network("::ffff:192.0.2.1") == IPv4Network("192.0.2.1/32")
    assert parse_network("::fffe:0:0/95") == IPv6Network("::fffe:0:0/95")
    assert to_prefix(IPv4Network("192.0.2.0/24")) == (bytes(10) + b"\xff\xff\xc0\x00\x02\x00", 120)


def test_denied_datagrams_are_counted_and_create_no_exporter() -> None:
    with flowbuf.Collector([LOCAL], interval=0.02, deny=["127.0.0.2", "127.0.1.0/24"]) as collector:
        (address,) = collector.addresses
        for source in ("127.0.0.1", "127.0.0.2", "127.0.1.7", "127.0.0.2", "127.0.2.1"):
            send([flows5(3)], address, source)
        wait_until(lambda: collector.counters.received == 5, "the datagrams")
        wait_until(lambda: collector.counters.flows == 6, "the flows")
        counters = collector.counters
    assert (counters.denied, counters.decoded) == (3, 2)
    check_datagrams(counters)
    found = {
        address for batch in collector for address in batch.to_arrow().column("exporter_address").to_pylist()
    }
    assert len(found) == 2


@pytest.mark.parametrize("listen", ["[::]:0", "0.0.0.0:0"])
def test_mapped_sources_are_matched_as_ipv4(listen: str) -> None:
    """A socket of IPv6 receives datagrams of IPv4 with mapped sources."""
    with flowbuf.Collector([listen], interval=0.02, allow=["127.0.0.0/31"]) as collector:
        port = collector.addresses[0].rpartition(":")[2]
        for source in ("127.0.0.1", "127.0.0.2"):
            send([flows5(3)], f"127.0.0.1:{port}", source)
        wait_until(lambda: collector.counters.received == 2, "the datagrams")
        wait_until(lambda: collector.counters.flows == 3, "the flows")
        counters = collector.counters
    assert (counters.denied, counters.decoded) == (1, 1)
    check_datagrams(counters)


def test_several_workers_share_the_list() -> None:
    with flowbuf.Collector([LOCAL], interval=0.02, workers=2, allow=["127.0.0.0/28"]) as collector:
        (address,) = collector.addresses
        for host in range(1, 41):
            send([flows5(1)], address, f"127.0.0.{host}")
        wait_until(lambda: collector.counters.received == 40, "the datagrams")
        wait_until(lambda: collector.counters.flows == 15, "the flows")
    assert (collector.counters.denied, collector.counters.decoded) == (25, 15)
    check_datagrams(collector.counters)


def test_a_failing_worker_keeps_its_list_and_its_sums() -> None:
    """The second batch fails. Its datagrams are decoded, denied or lost."""
    failures = iter([False, True])

    def deliver(batch: Any) -> None:
        if next(failures, False):
            raise RuntimeError("a test")

    with flowbuf.Collector([LOCAL], interval=0.02, deny=["127.0.0.2"]) as collector:
        worker = collector._started()._workers[0]
        worker._deliver = deliver
        (address,) = collector.addresses
        for number in range(1, 4):
            send([flows5(2)], address, "127.0.0.1")
            send([flows5(2)], address, "127.0.0.2")
            expected = 2 * number
            wait_until(lambda n=expected: collector.counters.received == n, "the datagrams")  # type: ignore[misc]
            wait_until(lambda: not collector.counters.waiting, "the batch")
    counters = collector.counters
    assert (counters.failures, counters.denied, counters.decoded) == (1, 3, 3)
    check_datagrams(counters)


def test_connections_of_denied_peers_are_refused() -> None:
    with flowbuf.Collector([f"tcp://{LOCAL}"], interval=0.02, deny=["127.0.0.2"]) as collector:
        (address,) = collector.addresses
        with connect(address, "127.0.0.2") as denied, connect(address, "127.0.0.1") as admitted:
            admitted.sendall(LEARNED + DATA_SET)
            wait_until(lambda: collector.counters.flows == 1, "the flow")
            wait_for_end(denied)
        wait_until(lambda: sessions_of(collector.counters).refused["denied"] == 1, "the denied peer")
    assert sessions_of(collector.counters).messages == 2


def test_a_reload_ends_sessions_that_it_denies() -> None:
    listen = (f"tcp://{LOCAL}",)
    config = CollectConfig(listen=listen, interval=0.02, outputs=(OutputConfig(to="all"),))
    outputs: dict[str, Any] = {"all": ListOutput()}
    with running(outputs, listen=listen) as service, connect(address_of(service), "127.0.0.1") as peer:
        peer.sendall(LEARNED + DATA_SET)
        wait_until(lambda: service.read_counters().intake.flows == 1, "the flow")
        service.reload(replace(config, allow=("192.0.2.0/24",)), [flowbuf.Schema.load("flow")])
        wait_for_end(peer)
        wait_until(lambda: sessions_of(service.read_counters().intake).closed["denied"] == 1, "the session")


def test_a_reload_changes_the_list() -> None:
    outputs: dict[str, Any] = {"all": ListOutput()}
    with running(outputs, deny=("127.0.0.2",)) as service:
        send([flows5(3)], address_of(service), "127.0.0.2")
        wait_until(lambda: service.read_counters().intake.denied == 1, "the denied datagram")
        config = CollectConfig(listen=(LOCAL,), outputs=(OutputConfig(to="all"),), allow=("127.0.0.2",))
        service.reload(config, [flowbuf.Schema.load("flow")])
        for source in ("127.0.0.1", "127.0.0.2"):
            send([flows5(3)], address_of(service), source)
        wait_until(lambda: service.read_counters().intake.denied == 2, "the second denied datagram")
        wait_until(lambda: service.read_counters().outputs["all"].stored == 3, "the flows")
    intake = service.read_counters().intake
    assert (intake.received, intake.denied, intake.decoded) == (3, 2, 1)
    check_datagrams(intake)
    totals = format_totals(service.read_counters())
    assert totals.startswith("received=3 kernel_drops=0 denied=2 decoded=1 flows=3; ")


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"allow": ("192.0.2.1/24",)}, "allow: network '192.0.2.1/24' has host bits set"),
        ({"deny": ("example.net",)}, "deny: network 'example.net' is invalid"),
        ({"rate_limit": 10**9}, "rate_limit is 1000000000; it may be 0 to 100,000,000"),
    ],
)
def test_an_invalid_reload_keeps_the_old_list(settings: dict[str, Any], problem: str) -> None:
    with running({"all": ListOutput()}, deny=("127.0.0.2",)) as service:
        config = CollectConfig(listen=(LOCAL,), outputs=(OutputConfig(to="all"),), **settings)
        with pytest.raises(ConfigError, match=problem):
            service.reload(config, [flowbuf.Schema.load("flow")])
        send([flows5(3)], address_of(service), "127.0.0.2")
        wait_until(lambda: service.read_counters().intake.denied == 1, "the denied datagram")


def test_invalid_networks_are_reported_before_a_socket_is_opened() -> None:
    with pytest.raises(ConfigError, match=r"allow: network '192\.0\.2' is invalid"):
        flowbuf.Collector([LOCAL], allow=["192.0.2"])


def test_ten_times_the_exporter_limit_does_not_harm_a_genuine_exporter() -> None:
    """Spoofed sources evict each other. The genuine exporter keeps its template, and all sums match."""
    limit = 20
    outputs: dict[str, Any] = {"all": ListOutput()}
    with running(outputs, exporter_limit=limit, rate_limit=1000) as service:
        address = address_of(service)
        send([LEARNED], address, "127.0.0.1")
        for host in range(10 * limit):
            send([flows5(1)], address, f"127.1.{host // 100}.{host % 100 + 1}")
            if host % 10 == 0:
                send([DATA_SET], address, "127.0.0.1")
        total = 1 + 10 * limit + limit
        wait_until(lambda: service.read_counters().intake.received == total, "the datagrams")
        wait_until(lambda: not service.read_counters().intake.waiting, "the flows")
        counters, exporters = service.read_counters().intake, service.intake.list_exporters()
    assert counters.kernel_drops == 0
    assert (counters.decoded, counters.denied) == (total, 0)
    check_datagrams(counters)
    assert counters.statuses["exporter_evicted"] >= 9 * limit
    assert "early_data" not in counters.statuses
    assert len(exporters) <= limit + 1
    assert sum(datagrams for _, _, datagrams, *_ in exporters) == counters.decoded
    assert sum(flows for _, _, _, _, flows, *_ in exporters) == counters.flows
    assert outputs["all"].stored == counters.flows


def read_metrics(service: Service) -> Counter[str]:
    """Return the sums of all metrics over their labels, by name."""
    pytest.importorskip("prometheus_client")
    from flowbuf.collect.metrics import format_metrics

    sums: Counter[str] = Counter()
    for line in format_metrics(service).decode().splitlines():
        if not line.startswith("#"):
            sums[line.partition("{")[0].partition(" ")[0]] += round(float(line.rpartition(" ")[2]))
    return sums


def test_the_sums_of_metrics_match() -> None:
    with running({"all": ListOutput()}, deny=("127.0.0.2",), rate_limit=30, exporter_limit=5) as service:
        send([flows5(30)] * 3, address_of(service), "127.0.0.1")
        send([flows5(30)] * 3, address_of(service), "127.0.0.2")
        for host in range(10):
            send([flows5(1)], address_of(service), f"127.0.1.{host + 1}")
        wait_until(lambda: service.read_counters().intake.received == 16, "the datagrams")
        wait_until(lambda: service.read_counters().intake.decoded == 13, "the decoder")
        found = read_metrics(service)
    received = found["flowbuf_received_datagrams_total"]
    assert received == 16
    assert received == found["flowbuf_denied_datagrams_total"] + found["flowbuf_decoded_datagrams_total"]
    assert found["flowbuf_exporter_datagrams_total"] == found["flowbuf_decoded_datagrams_total"]
    assert found["flowbuf_exporter_flows_total"] == found["flowbuf_decoded_flows_total"]
    limited = found["flowbuf_exporter_rate_limited_flows_total"]
    assert limited > 0
    assert found["flowbuf_decoded_flows_total"] + limited == 100
    assert found["flowbuf_exporters"] == 5


def test_flows_above_the_rate_limit_are_counted() -> None:
    outputs: dict[str, Any] = {"all": ListOutput()}
    with running(outputs, rate_limit=30) as service:
        send([flows5(30)] * 10, address_of(service))
        wait_until(lambda: service.read_counters().intake.decoded == 10, "the datagrams")
        wait_until(lambda: not service.read_counters().intake.waiting, "the flows")
    intake = service.read_counters().intake
    check_datagrams(intake)
    assert intake.flows + intake.statuses["rate_limited"] == 300
    assert 30 <= intake.flows <= 90
    assert f" rate_limited={intake.statuses['rate_limited']};" in format_totals(service.read_counters())
