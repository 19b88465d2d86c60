"""Taking octets apart from the front."""

from __future__ import annotations


class Short(Exception):
    """There are fewer octets than were asked for."""


class Octets:
    """A run of octets and a place in it. Every reading moves the place; all integers are big-endian."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.place

    @property
    def is_zero(self) -> bool:
        """No octet that is left is anything but zero."""
        return not any(self.data[self.place :])

    def take(self, size: int) -> bytes:
        """The next `size` octets, all of them, or `Short` with the place unmoved."""
        if size > self.left:
            raise Short(f"{size} octets wanted, {self.left} left")
        self.place += size
        return self.data[self.place - size : self.place]

    def take_up_to(self, size: int) -> bytes:
        """The next `size` octets, or as many of them as there are."""
        return self.take(min(size, self.left))

    def rest(self) -> bytes:
        return self.take(self.left)

    def uint(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def u8(self) -> int:
        return self.uint(1)

    def u16(self) -> int:
        return self.uint(2)

    def u32(self) -> int:
        return self.uint(4)

    def u64_pair(self) -> tuple[int, int]:
        """Two words of 32 bits."""
        return self.u32(), self.u32()
