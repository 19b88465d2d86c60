"""Annotated classes whose annotations are texts."""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, InitVar
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple

import flowbuf

if TYPE_CHECKING:
    from decimal import Decimal


@dataclasses.dataclass
class Base:
    id: int
    undefined: ClassVar[Decimal | None] = None  # the name exists for type checkers only


@dataclasses.dataclass
class Tree(Base):
    name: str = ""
    left: Tree | None = None
    branches: list[Tree] = dataclasses.field(default_factory=list)
    named: dict[str, Leaf] = dataclasses.field(default_factory=dict)
    _: KW_ONLY
    weight: float = 0.0


@dataclasses.dataclass
class Leaf:
    color: str
    tree: Tree | None = None


class Point(NamedTuple):
    x: Annotated[int, flowbuf.field(2, "sint32")]
    next: Annotated[Point | None, flowbuf.field(1)] = None


@dataclasses.dataclass
class Scaled:
    factor: InitVar[int] = 1
    value: int = 0

    def __post_init__(self, factor: Any) -> None:
        self.value *= factor


@dataclasses.dataclass
class Undefined:
    price: Decimal
