"""Conditions that no flow can match, or that are not SQL, are errors that say what to write."""

from __future__ import annotations

import pytest

from flowbuf.arrow.sql import RowFilter
from flowbuf.errors import QueryError
from flowbuf.schema import Schema
from flowbuf.selection import arrow_schema

FLOW = Schema.load("flow")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (
            "src_addr = '10.0.0.0/16'",
            "src_addr is never '10.0.0.0/16': the text is a network; write in_net(src_addr, '10.0.0.0/16')",
        ),
        ("bytes > 1 AND src_addr = '10.1/16'", "src_addr is never '10.1/16': the text is no IP address"),
        ("SRC_ADDR == '2001:DB8::1'", "src_addr is never .*; write '2001:db8::1'"),
        ("bytes = 1 OR (src_addr='::ffff:192.0.2.1')", "src_addr is never .*; write '192.0.2.1'"),
        ("src_addr IN ('192.0.2.1', 'x')", "src_addr is never 'x': the text is no IP address"),
        ("src_mac = '00-00-5E-00-53-01'", "src_mac is never .*; write '00:00:5e:00:53:01'"),
        ("src_mac = 'printer'", "src_mac is never 'printer': the text is no MAC address, such as 00:00:"),
        ("flow_type = 'sflow'", "flow_type is never 'sflow': the column has no such value; did you mean SF"),
        ("flow_direction IN ('x')", "flow_direction is never 'x': .*; values are "),
        ("proto = 'tcp'", "proto is never 'tcp': the column is a number; write proto = 6 for tcp"),
        ("src_addr BETWEEN '10.0.0.1' AND '10.0.0.9'", "src_addr is text in SQL, .*; for a range of addr"),
        ("bytes > 1 AND Dst_Addr >= '2001:db8::'", "dst_addr is text in SQL, .* write in_net(dst_addr, "),
        ("src_addr NOT BETWEEN '10.0.0.0/8' AND '11'", "src_addr is text in SQL"),
        ("tunnel_id = 'it''s'", "tunnel_id is never 'it's': the column is a number$"),
        ("tcp_flags = 'S'", "the column is a number; write tcp_flags & 2 = 2 for S$"),
        ("tcp_flags = 'SA'", "the column is a number; write tcp_flags & 18 = 18 for SA$"),
        ("tcp_flags = 'SYN'", "the column is a number; write tcp_flags & 2 = 2 for SYN$"),
        ("tcp_flags = 'none'", "the column is a number; write tcp_flags & 2 <> 0 for flows with SYN$"),
        ("bytes > 1 AND (out_if IS NULL)", "out_if is never NULL: absent numbers are 0; write out_if = 0$"),
        ("CASE WHEN bytes\N{NO-BREAK SPACE}= 'many' THEN true END", "bytes is never 'many': the column is a"),
    ],
)
def test_comparisons_with_impossible_texts_are_errors(condition: str, message: str) -> None:
    with pytest.raises(QueryError, match=message.replace("(", r"\(").replace(")", r"\)")):
        RowFilter(condition, FLOW)


@pytest.mark.parametrize(
    "condition",
    [
        "src_addr = '192.0.2.1' OR src_addr IN ('::', '2001:db8::1')",
        "src_addr = '10.0' || '.0.1' OR src_addr IN ('10.0.0.' || '1')",
        "src_addr = '10.0.0.1/8'[:8] OR src_addr IN (split_part('10.0.0.1/32', '/', 1))",
        "'x' || src_addr = 'x10.0.0.1'",
        "lower(src_addr) = 'x' OR src_addr LIKE '10.%' OR src_addr !~~ '10.%' OR src_addr ~ '10[.].*'",
        "src_addr < '2' OR src_addr >= '2' OR flow_type <= 'SFLOW_6' OR dst_port <= '0x35'",
        "src_addr <> '' OR src_addr != '10.0.0.0/8' OR src_addr NOT IN ('x', '')",
        "NOT src_addr = 'x' OR NOT (src_addr = 'x') OR (src_addr = 'x') IS NOT TRUE",
        "((src_addr = 'x')) IS NULL",
        "src_addr IS NULL OR out_if IS NOT NULL OR out_if + bytes IS NULL OR egress_queue IS NULL",
        "coalesce(src_addr = 'x', true) OR bool(src_addr = 'x') OR position(src_addr IN ('x')) = 0",
        "src_addr = 'FE80::1' COLLATE NOCASE OR src_addr = '10.0.0.'\n'1'",
        "EXISTS (FROM (VALUES ('web')) v(src_addr) WHERE src_addr = 'web')",
        "src_addr IN (SELECT '10.0.0.' || '1')",
        "time_received::date = '2000-01-01'",
        "struct_pack(src_addr => 'x') IS NOT NULL",
        "list_transform(['a'], lambda src_addr: src_addr = 'a')[1]",
        "src_mac = '00:00:5e:00:53:01' OR dst_mac = ''::VARCHAR",
        "flow_type = 'IPFIX' OR flow_type IN ('NETFLOW_V9', '77') OR flow_type = '-1'",
        "dst_port = '53' AND bytes = '1e3' OR dst_port IN ('0x35', '0b11')",
        "src_addr /* = 'x' */ = '10.0.0.1' -- = 'x'",
    ],
)
def test_other_comparisons_are_accepted(condition: str) -> None:
    assert RowFilter(condition, FLOW).columns


@pytest.mark.parametrize(
    ("condition", "advice"),
    [
        ("port 53", "write SQL, for example src_addr = '10.0.0.1' AND dst_port = 53"),
        ("src host 192.0.2.1 and port 53", "write SQL, for example "),
        ("src_addr=192.0.2.1", "write SQL, for example "),
        ("tcp", "write proto = 6 for tcp"),
        ('proto = "UDP"', "write proto = 17 for UDP"),
        (
            'flow_type = "IPFIX"',
            "double quotes enclose names of columns; write texts in single quotes: 'IPFIX'",
        ),
        ("src_adr = '192.0.2.1'", "did you mean src_addr"),
    ],
)
def test_errors_of_duckdb_have_advice(condition: str, advice: str) -> None:
    with pytest.raises(QueryError) as caught:
        evaluate(condition)
    assert str(caught.value).splitlines()[-1].startswith(advice)


def evaluate(condition: str) -> None:
    found = RowFilter(condition, FLOW)
    found.check(arrow_schema(FLOW.enable(*found.columns), "text"))
