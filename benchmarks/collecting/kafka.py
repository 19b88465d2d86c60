"""A Kafka broker of its own for the parts that need one, on the processor of the sender."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tools import services

from .setting import Absent, Setting

__all__ = ["running_broker"]


@contextmanager
def running_broker(setting: Setting) -> Iterator[str]:
    """Run a new broker inside the block, and provide its address. Raises Absent if it cannot be started.

    The broker runs on the processor of this process, which is that of the sender.
    """
    setting.show("start a Kafka broker")
    broker = services.Kafka(setting.new_folder("broker"), bound=True)
    try:
        address = broker.start()
    except (services.Missing, services.Failed) as error:
        raise Absent(f"no Kafka broker: {error}") from error
    try:
        yield address
    finally:
        broker.kill()
