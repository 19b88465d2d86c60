"""Values of settings: times, sizes, and the file that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowbuf.collect.config import CollectConfig, OutputConfig, format_config, read_config
from flowbuf.collect.settings import parse_bytes, parse_seconds, settings_of
from flowbuf.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("5m", 300),
        ("1.5h", 5400),
        ("30d", 2_592_000),
        ("20ms", 0.02),
        (7, 7),
        (0.5, 0.5),
    ],
)
def test_times(text: Any, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64MiB", 64 << 20),
        ("1.5 GB", 1_500_000_000),
        ("2kB", 2000),
        ("1TiB", 1 << 40),
        (5, 5),
    ],
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "5x", "-1", "m", "1e3", "5 m m", "9" * 20, "0x10"])
def test_quantities_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        parse_seconds(text)
    with pytest.raises(ValueError, match=r".*"):
        parse_bytes(text)


@pytest.mark.parametrize("value", [True, None, [1], {"a": 1}])
def test_values_of_other_kinds(value: Any) -> None:
    for setting in settings_of(CollectConfig):
        if setting.kind not in ("flag", "list"):
            with pytest.raises(ConfigError, match=setting.name):
                setting.convert(value)


TOO_LARGE = "the largest value is 1000000000s"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        *((f"interval = {value}", "interval is .*; write a time") for value in ("inf", "nan", "-inf")),
        *((f"{name} = nan", f"{name} is nan; write a time") for name in ("report", "idle_timeout")),
        ("receive_buffer = inf", "receive_buffer is inf; write a size"),
        (f"save_undecoded_bytes = {2**1024 - 1}", "save_undecoded_bytes is 1.*; write a size"),
        ("receive_buffer = '1GiB'", "receive_buffer is '1GiB'; the largest value is 1073741823"),
        ("interval = '99999999999d'", f"interval is '99999999999d'; {TOO_LARGE}"),
        ("idle_timeout = 1e300", f"idle_timeout is 1e.300; {TOO_LARGE}"),
        ("[[output]]\nto = 'f/'\nrotate_bytes = inf", "output 1: rotate_bytes is inf; write a size"),
        ("[[output]]\nto = 'f/'\nkeep = nan", "output 1: keep is nan; write a time"),
    ],
)
def test_numbers_out_of_range(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "collector.toml"
    path.write_text(line)
    with pytest.raises(ConfigError, match=problem):
        read_config(str(path))


def test_largest_values() -> None:
    for each in (*settings_of(CollectConfig), *settings_of(OutputConfig)):
        if each.kind == "seconds":
            assert each.convert(10**9) == 10**9
        if each.most is not None:
            assert each.convert(each.most) == each.most


def test_a_table_is_no_list() -> None:
    (columns,) = (each for each in settings_of(OutputConfig) if each.name == "columns")
    with pytest.raises(ConfigError, match=r"columns is \{'src_addr': 1\}; write a list"):
        columns.convert({"src_addr": 1})


def test_a_printed_file_has_the_same_values(tmp_path: Any) -> None:
    outputs = (
        OutputConfig(
            to='a "quoted" name/', where="proto = 'ünï'\n-- \\", columns=("a", "b"), rotate=0.1 + 0.2
        ),
        OutputConfig(to="null:", keep=86400.0, keep_bytes=1 << 60),
    )
    config = CollectConfig(listen=("[::1]:1", "127.0.0.1:2"), scale=True, workers=7, outputs=outputs)
    path = tmp_path / "collector.toml"
    path.write_text("\n".join(format_config(config)), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"output 1: rotate is 0\.3.*; the least value is 1"):
        read_config(str(path))
    path.write_text(path.read_text(encoding="utf-8").replace("rotate = 0.30000000000000004", "rotate = 1.5"))
    read = read_config(str(path))
    assert read.outputs[0].rotate == 1.5
    assert (read.listen, read.scale, read.workers, read.outputs[1]) == (config.listen, True, 7, outputs[1])
    assert (read.outputs[0].to, read.outputs[0].where) == (outputs[0].to, outputs[0].where)


def test_a_printed_file_escapes_all_control_characters(tmp_path: Path) -> None:
    text = "".join(map(chr, range(1, 160)))
    config = CollectConfig(outputs=(OutputConfig(to="null:", name=text, columns=(text,)),))
    path = tmp_path / "collector.toml"
    path.write_text("\n".join(format_config(config)), encoding="utf-8")
    (output,) = read_config(str(path)).outputs
    assert (output.name, output.columns) == (text, (text,))


def test_each_setting_is_an_option_with_a_description() -> None:
    for kind in (CollectConfig, OutputConfig):
        for setting in settings_of(kind):
            assert setting.help.endswith("."), setting.name
            assert setting.convert(setting.default) == setting.default


@pytest.mark.parametrize(
    ("to", "form"),
    [
        *(("flows/", "text"), ("s3://bucket/flows", "text"), ("pb:flows/", "binary"), ("-", "binary")),
        *(("null:", "binary"), ("kafka://host/topic", "binary"), ("http://host:8123/", "binary")),
    ],
)
def test_only_parquet_has_addresses_in_the_chosen_form(to: str, form: str) -> None:
    """All other outputs convert addresses themselves."""
    assert OutputConfig(to=to).address_form == form
    assert OutputConfig(to=to, ip="binary").address_form == "binary"
