"""Options of a field in an annotated class."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FieldOptions", "field"]


@dataclass(frozen=True)
class FieldOptions:
    """Options of a field in an annotated class: the result of `flowbuf.field`.

    Attributes:
        number: Number of the field.
        type: Protocol Buffers type, or None for the default of the annotation.
        oneof: Name of the oneof, or None.
    """

    number: int
    type: str | None = None
    oneof: str | None = None


def field(number: int, type: str | None = None, *, oneof: str | None = None) -> FieldOptions:
    """Return the options of a field, for `typing.Annotated` in a class of `Codec.from_class`.

    `Codec.from_class` checks the options.

    Args:
        number: Number of the field, 1 to 536870911. The range 19000 to 19999 is reserved.
        type: Protocol Buffers type, such as "sint32" or "float". In a list or dict, the type of its values.
            Default: int64, double, string, bytes or bool, by the annotation.
        oneof: Name of the oneof that the field belongs to. Default: none.

    Returns:
        FieldOptions: the options.

    Example:
        @dataclasses.dataclass
        class Order:
            id: Annotated[int, flowbuf.field(1, "uint32")]
            card: Annotated[str | None, flowbuf.field(2, oneof="payment")] = None
            cash: Annotated[int | None, flowbuf.field(3, oneof="payment")] = None
    """
    return FieldOptions(number, type, oneof)
