"""Fuzz families: documents with the state of exporters, and data sets that wait for their templates."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from flowbuf import Decoder, StateError, load_state, save_state
from tests.binding.fuzz_common import RECEIVED, SEED_SIZE, SOURCES, Parts, check, schemas
from tests.binding.fuzz_datagrams import memory_of, options_of, seed_datagrams


def seed_state() -> list[Parts]:
    seeds = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        for parts in seed_datagrams():
            decoder = Decoder()
            for i, part in enumerate(parts):
                decoder.encode(part, SOURCES[i % 3], RECEIVED)
            save_state(decoder, path)
            if (text := path.read_bytes()) not in [seed for (seed,) in seeds]:
                seeds.append([text[:SEED_SIZE]])
    return seeds


def values_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield all values of a document, as a container and a key."""
    places: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        places = value.items()
    elif isinstance(value, list):
        places = enumerate(value)
    for key, child in list(places):
        yield value, key
        yield from values_of(child)


ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1,
    5,
    9,
    10,
    255,
    256,
    65535,
    65536,
    2**32,
    2**63,
    2**64,
    1.5,
    "",
    "9",
]
ODD_VALUES += [
    [],
    {},
    [[0, 1, 2]],
    [[0, 1, 65535]] * 50,
    {"256": {"fields": []}},
    "::",
    "192.0.2.1",
    10**30,
    "1" * 25,
]


def mutate_document(data: bytes, rng: random.Random) -> bytes:
    """Change values of a JSON document. Return other data unchanged."""
    try:
        document = json.loads(data)
        places = list(values_of(document))
    except (ValueError, RecursionError):
        return data
    for _ in range(rng.randrange(3)):
        if places:
            container, key = rng.choice(places)
            with contextlib.suppress(KeyError, IndexError):
                container[key] = rng.choice([*ODD_VALUES, container[key]])
    return json.dumps(document).encode()


@functools.cache
def state_path() -> Path:
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    import atexit
    import shutil

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder, "state")


def run_state(parts: Parts, rng: random.Random) -> None:
    data = b"".join(parts)
    if rng.random() < 0.7:
        data = mutate_document(data, rng)
    path = state_path()
    path.write_bytes(data)
    options = {"memory_limit": memory_of(schemas()[0]) + 5000} if rng.random() < 0.1 else {}
    decoder = Decoder(**options)
    try:
        load_state(decoder, path)
    except StateError as error:
        check(not decoder.read_exporters(), "exporters after a rejected state")
        if error.replaceable:
            return
        before = path.read_bytes()
        with contextlib.suppress(StateError):
            save_state(decoder, path)
        check(path.read_bytes() == before, "foreign file was changed")
        return
    save_state(decoder, path)
    text = path.read_bytes()
    again = Decoder(**options)
    load_state(again, path)
    save_state(again, path)
    check(path.read_bytes() == text, "state saved again")
    for decoded in seed_state_datagrams():
        decoder.encode(decoded, rng.choice(SOURCES), RECEIVED)


@functools.cache
def seed_state_datagrams() -> Parts:
    return [part for parts in seed_datagrams()[:12] for part in parts[:4]]


# Data sets that wait for their templates --------------------------------------------------------------------


def seed_early_data() -> list[Parts]:
    """Return forms of `read_early_data`. Their templates come with `seed_state_datagrams`."""
    seeds: list[Parts] = []
    for parts in seed_datagrams():
        decoder = Decoder()
        for i, part in enumerate(reversed(parts)):
            decoder.encode(part, SOURCES[i % 3], RECEIVED + i)
        if forms := [exporter["early_data"][:SEED_SIZE] for exporter in decoder.read_early_data()]:
            seeds.append(forms)
    return seeds


def waiting_in(decoder: Decoder) -> int:
    return sum(exporter["waiting"]["sets"] for exporter in decoder.read_exporters())


def run_early_data(parts: Parts, rng: random.Random) -> None:
    """Restore each form, move the sets to another decoder, and decode them with templates."""
    schema = rng.choice(schemas()[:3])
    options = options_of(schema, rng)
    decoder, moved = (Decoder(schema, **options) for _ in range(2))
    for form in parts:
        exporter: dict[str, Any] = {"address": rng.choice(SOURCES)[0], "early_data": form}
        if rng.random() < 0.1:
            exporter["session"] = 1
        before = decoder.read_exporters()
        try:
            decoder.restore_exporters([exporter])
        except ValueError:
            check(decoder.read_exporters() == before, "state after a rejected form")
    counters, waiting = decoder.counters, waiting_in(decoder)
    inherited = counters.get("early_data_inherited", 0)
    check(waiting + counters.get("template_missing", 0) == inherited, "restored sets", counters, waiting)
    forms = decoder.read_early_data()
    moved.restore_exporters(decoder.read_exporters())
    moved.restore_exporters(forms)
    check(moved.counters.get("early_data_inherited", 0) == waiting, "moved sets")
    if not {"early_data_limit", "memory_limit"} & options.keys():
        check(sorted_forms(moved.read_early_data()) == sorted_forms(forms), "forms of moved sets")
        templates = [(part, rng.choice(SOURCES)) for part in seed_state_datagrams()]
        first, second = ([each.encode(*part, RECEIVED) for part in templates] for each in (decoder, moved))
        check(first == second, "flows of moved sets")
    waiting = waiting_in(moved)
    moved.finish(handed_over=True)
    check(moved.counters.get("early_data_handed_over", 0) == waiting, "sets handed over")
    check(waiting_in(moved) == 0, "sets that wait after they were handed over")
    decoder.finish()
    check(waiting_in(decoder) == 0, "sets that wait at the end")


def sorted_forms(exporters: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(exporters, key=lambda exporter: (exporter["address"], exporter.get("session", 0)))
