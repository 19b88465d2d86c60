"""A byte string that is read from the front."""

from __future__ import annotations


class Short(Exception):
    """Fewer bytes are left than requested."""


class Octets:
    """A byte string with a position. Every read advances the position. Integers are big-endian."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.place = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.place

    @property
    def is_zero(self) -> bool:
        """Return whether all remaining bytes are zero."""
        return not any(self.data[self.place :])

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes. Raise `Short` without a change of the position if fewer are left."""
        if size > self.left:
            raise Short(f"{size} octets wanted, {self.left} left")
        self.place += size
        return self.data[self.place - size : self.place]

    def take_up_to(self, size: int) -> bytes:
        """Return the next `size` bytes, or the remaining ones if fewer are left."""
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
        """Read two 32-bit words."""
        return self.u32(), self.u32()
