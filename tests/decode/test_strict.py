"""`Decoder(strict=True)`: faults and losses raise DecodeError."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from flowbuf import DecodeError, Decoder, _core, encode_capture, read_capture
from flowbuf.io.capture import CaptureReader
from tests.support.command import pcap
from tests.support.datagrams import data_set, ipfix, netflow5, record5, template, template_set

RECORD = record5(src="10.0.0.1", dst="10.0.0.2", packets=3, octets=400, src_as=65001)
V5 = netflow5(RECORD, seconds=1_700_000_000, uptime=10_000, sampling=100)
BROKEN = netflow5(RECORD, count=2)


class TestStrict:
    """A strict decoder raises the faults and losses that other decoders count."""

    def test_the_error_has_status_offset_and_exporter(self) -> None:
        with pytest.raises(DecodeError, match="truncated_datagram") as error:
            Decoder(strict=True).encode(BROKEN, "192.0.2.1")
        assert (error.value.status, error.value.offset, error.value.exporter) == (
            "truncated_datagram",
            72,
            "192.0.2.1",
        )

    def test_the_error_of_a_batch_has_the_datagram(self) -> None:
        with pytest.raises(DecodeError, match="datagram 1"):
            Decoder(strict=True).encode_many([V5, BROKEN], "192.0.2.1")

    def test_losses_raise_and_notes_do_not(self) -> None:
        decoder, templates = (
            Decoder(strict=True, exporter_limit=1),
            ipfix(template_set(template(256, (1, 8)))),
        )
        decoder.encode_many([templates] * 2, ["192.0.2.1", "192.0.2.2"])
        assert decoder.counters == {"exporter_evicted": 1}
        with pytest.raises(DecodeError, match="template_limit"):
            decoder.encode(ipfix(template_set(template(256, *[(1, 4)] * 1100))), "192.0.2.1")

    @pytest.mark.parametrize("payload", [b"hello", b"", bytes(100), bytearray(b"GET / HTTP/1.1")])
    def test_a_payload_that_is_not_flow_data_raises(self, payload: bytes) -> None:
        decoder = Decoder(strict=True)
        for method in (decoder.encode, decoder.messages, decoder.columns):
            with pytest.raises(DecodeError, match=r"192\.0\.2\.1, byte 0: other_packet") as error:
                method(payload, ("192.0.2.1", 2055))
            assert (error.value.status, error.value.offset, error.value.exporter) == (
                "other_packet",
                0,
                "192.0.2.1",
            )
        for method in (decoder.encode_many, decoder.columns_many):
            with pytest.raises(DecodeError, match=r"192\.0\.2\.1, datagram 1, byte 0: other_packet"):
                method([V5, payload, V5], "192.0.2.1")
        with pytest.raises(DecodeError, match="other_packet"):
            decoder.encode_each(_core.pack_datagrams([V5, payload], "192.0.2.1"))
        assert decoder.counters == {"other_packet": 6}
        assert decoder.stats.keys() == {"192.0.2.1"}

    def test_other_packets_of_a_capture_do_not_raise(self, tmp_path: Path) -> None:
        capture = pcap(V5, b"hello", b"")
        assert len(read_capture(io.BytesIO(capture), strict=True).to_arrow()) == 1
        (tmp_path / "a.pcap").write_bytes(capture)
        encode_capture(tmp_path / "a.pcap", tmp_path / "a.pb", strict=True)
        decoder = Decoder(strict=True)
        with CaptureReader(io.BytesIO(capture)) as reader:
            for datagrams in reader.batches():
                assert len(decoder.encode_each(datagrams)) == 1
                with pytest.raises(DecodeError):
                    decoder.encode(b"hello", "192.0.2.1")
                assert decoder.encode_datagrams(datagrams)
                with decoder.view_datagrams(datagrams) as view:
                    assert view
        assert Decoder().encode(b"hello", "192.0.2.1") == b""

    def test_waiting_data_raises_only_at_the_end(self) -> None:
        decoder = Decoder(strict=True)
        assert decoder.encode(ipfix(data_set(256, bytes(8))), "192.0.2.1") == b""
        with pytest.raises(DecodeError, match=r"192\.0\.2\.1: template_missing") as error:
            decoder.finish()
        assert (error.value.status, error.value.offset, error.value.exporter) == (
            "template_missing",
            None,
            "192.0.2.1",
        )
        decoder.finish()
        assert decoder.counters == {"early_data": 1, "template_missing": 1}

    def test_a_waiting_set_that_is_dropped_raises(self) -> None:
        decoder = Decoder(strict=True, early_data_limit=200)
        decoder.encode(ipfix(data_set(256, bytes(4))), "192.0.2.1")
        with pytest.raises(DecodeError, match="byte 16: template_missing"):
            decoder.encode(ipfix(data_set(256, bytes(4))), "192.0.2.1")

    def test_the_decoder_works_after_an_error(self) -> None:
        decoder = Decoder(strict=True)
        with pytest.raises(DecodeError):
            decoder.encode(BROKEN, "192.0.2.1")
        assert len(decoder.messages(V5, "192.0.2.1")) == 1
