"""Destinations of outputs: their description without secrets, and places that two outputs cannot share."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowbuf.cli.collect_outputs import new_output
from flowbuf.collect.config import CollectConfig, OutputConfig, expand_outputs
from flowbuf.collect.places import describe, exclusive_place
from flowbuf.errors import ConfigError
from flowbuf.selection import FlowSelection
from tests.collect.test_rows import SCHEMAS
from tests.collect.test_service import LOCAL, ListOutput, running


@pytest.mark.parametrize(
    ("destination", "described"),
    [
        ("flows/", "flows/"),
        ("http://user:p@ss@host:8123?database=x&password=y", "http://host:8123"),
        ("s3://KEY:SECRET@bucket/prefix?scheme=http", "s3://bucket/prefix"),
        ("s3://KEY:SEC/RET/+@bucket/prefix", "s3://bucket/prefix"),
        ("http://user:SECRET/@host:8123/at@path", "http://host:8123/at@path"),
        ("http://user:1SECRET", "http://user"),
        ("http://[::1]", "http://[::1]"),
        ("s3://bucket/me@there/", "s3://bucket/me@there/"),
        ("http://[::1]:8123/me@there", "http://[::1]:8123/me@there"),
        ("kafka://a:1,b:2/topic", "kafka://a:1,b:2/topic"),
    ],
)
def test_destinations_are_named_without_secrets(destination: str, described: str) -> None:
    assert describe(destination) == described


def test_an_error_about_rows_has_no_secrets() -> None:
    output = OutputConfig(to="http://user:SECRET@host", rows="counters")
    with pytest.raises(ConfigError, match="output 'http://host': rows counters are not decoded") as raised:
        expand_outputs([output], {"flows": SCHEMAS["flows"]})
    assert "SECRET" not in str(raised.value)


@pytest.mark.parametrize("to", ["http://user:SECRET", "http://SECRET\uff0f@host", "s3://SECRET\uff0f@bucket"])
def test_an_error_about_a_url_has_no_secrets(to: str) -> None:
    schema = SCHEMAS["flows"]
    with pytest.raises(ConfigError, match="invalid") as raised:
        new_output(OutputConfig(to=to, rows="flows"), FlowSelection(schema), "")
    assert "SECRET" not in str(raised.value)


def same(one: str, other: str) -> bool:
    return exclusive_place(one, "flows") == exclusive_place(other, "flows") != ()


def test_one_folder_has_several_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("a")
    for name in ("./a/", "b/../a//", "link/", f"{tmp_path}/a/", f"file://{tmp_path}/a/"):
        assert same("a/", name), name
    assert same("pb:a", "pb:a/")
    assert same("-", "-")
    assert same("s3://bucket/x", "s3://KEY:SECRET@bucket/x/?region=here")
    assert same("s3://bucket/x?endpoint_override=h:1", "s3://bucket/x/?scheme=http&endpoint_override=h:1")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a/", "b/"),
        ("a/", "a/b/"),  # retention lists only its own partitions
        ("a/", "pb:a/"),  # the names of the files differ
        ("s3://bucket/x", "s3://bucket/y"),
        ("s3://bucket/x", "s3://bucket/x?endpoint_override=h:1"),
        *((each, each) for each in ("null:", "kafka://host/topic", "http://host:8123/", "live:")),
    ],
)
def test_places_that_two_outputs_can_use(one: str, other: str) -> None:
    assert not same(one, other)


def test_kinds_of_rows_share_a_folder() -> None:
    both = [OutputConfig(to="a/"), OutputConfig(to="a/", rows="counters", name="c")]
    assert len(expand_outputs(both, SCHEMAS)) == 2
    assert len(expand_outputs([OutputConfig(to="a/{rows}/")], SCHEMAS)) == 2


@pytest.mark.parametrize(
    ("to", "problem"),
    [
        ("a/", "outputs 'all' and 'dns' write flows to one folder, 'a/'; name another folder"),
        ("-", "outputs 'all' and 'dns' write to standard output; leave one of them out"),
    ],
)
def test_a_reload_refuses_a_place_that_is_used_twice(to: str, problem: str) -> None:
    one = OutputConfig(to=to, name="all")
    two = OutputConfig(to=to, name="dns", where="dst_port = 53", keep=2.0)
    with running({to: ListOutput()}) as service:
        config = CollectConfig(listen=(LOCAL,), outputs=(one, two))
        with pytest.raises(ConfigError) as raised:
            service.reload(config, config.load_schemas())
        assert [runner.name for runner in service.outputs] == [to]
    assert str(raised.value) == problem
