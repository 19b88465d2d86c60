"""Rules that set facts about exporters and interfaces, based on known facts.

    [[interface_rule]]
    exporter_name = ["edge1.fra", "edge2.fra"]           # equal to this string, or to one of these
    address       = "192.0.2.0/24"                       # exporters in this network, or in one of a list
    speed         = { min = 10000, max = 100000 }        # a number, a list of numbers, or a range
    match         = { description = '^Transit: (?P<provider>\\w+)' }    # regular expressions, found anywhere
    set           = { connectivity = "transit", provider = "{provider}", boundary = "external" }

A rule applies if all of its conditions hold. Rules are tried in order, and each sets only values that are not
set yet. `{name}` stands for a named group of the rule's expressions. `{1}` stands for a numbered group, if
the rule has one expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flowbuf.enrich.prefixes import Prefix, parse_prefix
from flowbuf.enrich.records import INTERFACE, check_keys
from flowbuf.errors import EnrichmentError, did_you_mean

__all__ = ["EXPORTER_RULE", "INTERFACE_RULE", "Rule", "RuleKind", "apply"]

Subject = Mapping[str, Any]
Condition = Callable[[Any], bool]

_EXPORTER_FIELDS = ("name", "group", "role", "site", "region", "tenant")


@dataclass(frozen=True)
class RuleKind:
    """Fields that rules of a kind can test and set."""

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    sets: tuple[str, ...]


EXPORTER_RULE = RuleKind(("name",), (), ("group", "role", "site", "region", "tenant"))
INTERFACE_RULE = RuleKind(
    ("name", "description", *(f"exporter_{field}" for field in _EXPORTER_FIELDS)),
    ("index", "speed"),
    ("connectivity", "provider", "boundary"),
)


@dataclass(frozen=True)
class Rule:
    """One rule: conditions, regular expressions and values to set, each by field."""

    conditions: Mapping[str, Condition] = field(default_factory=dict)
    expressions: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)

    @property
    def fields(self) -> set[str]:
        """The fields that the rule tests."""
        return {*self.conditions, *self.expressions}

    @classmethod
    def read(cls, kind: RuleKind, table: Mapping[str, Any]) -> Rule:
        """Read a rule from a table of a TOML file. Raises EnrichmentError."""
        known = ("address", *kind.texts, *kind.numbers, "match", "set")
        check_keys(table, known)
        if "set" not in table:
            raise EnrichmentError("has no set", f"add set = {{ {kind.sets[0]} = … }}")
        plain = {key: value for key, value in table.items() if key not in ("match", "set")}
        conditions = {key: _read_condition(kind, key, value) for key, value in plain.items()}
        expressions = _read_expressions(kind, table.get("match", {}))
        return cls(conditions, expressions, _read_values(kind, table["set"], expressions))

    def captured(self, subject: Subject) -> dict[str, str] | None:
        """Return the groups captured by the expressions, or None if a condition does not hold."""
        for name, holds in self.conditions.items():
            value = subject.get(name)
            if value is None or not holds(value):
                return None
        groups: dict[str, str] = {}
        for name, expression in self.expressions.items():
            value = subject.get(name)
            found = None if value is None else expression.search(value)
            if found is None:
                return None
            groups.update({str(i): text or "" for i, text in enumerate(found.groups(), 1)})
            groups.update({name: text or "" for name, text in found.groupdict().items()})
        return groups


def apply(rules: tuple[Rule, ...], subject: Subject, known: dict[str, Any]) -> None:
    """Add the values that rules set for a subject to its known values."""
    for rule in rules:
        if all(known.get(key) is not None for key in rule.values):
            continue
        groups = rule.captured(subject)
        if groups is None:
            continue
        for key, template in rule.values.items():
            if known.get(key) is None:
                known[key] = _expand(template, groups) or None


# Reading ----------------------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w*)\}|[{}]")


def _expand(template: str, groups: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda hit: groups[hit[1]] if hit[1] else hit[0][0], template)


def _read_condition(kind: RuleKind, key: str, value: Any) -> Condition:
    choices = value if isinstance(value, list) else [value]
    if key == "address":
        networks = [_read_network(choice) for choice in choices]
        return lambda address: any(address in network for network in networks)
    if key in kind.numbers:
        return (
            _read_range(key, value)
            if isinstance(value, dict)
            else _read_choices(key, choices, int, "a number")
        )
    if isinstance(value, dict):
        raise EnrichmentError(f"{key} is {value!r}", f"write a regular expression as match = {{ {key} = … }}")
    return _read_choices(key, choices, str, "a string")


def _read_network(value: Any) -> Prefix:
    if not isinstance(value, str):
        raise EnrichmentError(f"address is {value!r}", "write an address or a network as a string")
    return parse_prefix(value)


def _read_choices(key: str, choices: list[Any], kind: type, what: str) -> Condition:
    if not choices or any(type(choice) is not kind for choice in choices):
        raise EnrichmentError(f"{key} is {choices!r}", f"write {what}, or a list of them")
    return frozenset(choices).__contains__


def _read_range(key: str, value: Mapping[str, Any]) -> Condition:
    check_keys(value, ("min", "max"), f"key of {key}:")
    if not value or any(type(bound) is not int for bound in value.values()):
        raise EnrichmentError(f"{key} is {value!r}", "write { min = 1000 }, { max = 9999 } or both")
    low, high = value.get("min", 0), value.get("max", 1 << 64)
    if low > high:
        raise EnrichmentError(f"{key} is {value!r}", "exchange min and max")
    return lambda number: bool(low <= number <= high)


def _read_expressions(kind: RuleKind, table: Any) -> dict[str, re.Pattern[str]]:
    if not isinstance(table, dict):
        raise EnrichmentError(f"match is {table!r}", f"write match = {{ {kind.texts[0]} = '…' }}")
    check_keys(table, kind.texts, "key of match:")
    expressions = {}
    for key, value in table.items():
        if not isinstance(value, str):
            raise EnrichmentError(f"match.{key} is {value!r}", "write a regular expression as a string")
        try:
            expressions[key] = re.compile(value)
        except re.error as error:
            fix = "write it in 'single quotes', in which TOML keeps backslashes"
            raise EnrichmentError(f"match.{key} is not a regular expression: {error}", fix) from None
    return expressions


def _read_values(kind: RuleKind, table: Any, expressions: Mapping[str, re.Pattern[str]]) -> dict[str, str]:
    if not isinstance(table, dict) or not table:
        raise EnrichmentError(f"set is {table!r}", f"write set = {{ {kind.sets[0]} = … }}")
    check_keys(table, kind.sets, "key of set:")
    for key, value in table.items():
        if not isinstance(value, str):
            raise EnrichmentError(f"set.{key} is {value!r}", "write a string")
        if key == "boundary":
            _check_boundary(value)
        _check_placeholders(key, value, expressions)
    return table


def _check_boundary(value: str) -> None:
    try:
        INTERFACE.keys["boundary"](value)
    except EnrichmentError as error:
        raise EnrichmentError(f"set.boundary {error.problem}", error.fix) from None


def _check_placeholders(key: str, template: str, expressions: Mapping[str, re.Pattern[str]]) -> None:
    groups = [name for expression in expressions.values() for name in expression.groupindex]
    if len(set(groups)) < len(groups):
        raise EnrichmentError("match has two groups with the same name", "rename one")
    if len(expressions) == 1:
        groups += [str(i + 1) for expression in expressions.values() for i in range(expression.groups)]
    for hit in _PLACEHOLDER.finditer(template):
        if hit[0] in ("{{", "}}"):
            continue
        if hit[1] is None:
            raise EnrichmentError(f"set.{key} is {template!r}", f"write a literal brace as {hit[0] * 2}")
        if hit[1] not in groups:
            there = (
                f"groups of match are {', '.join(groups)}"
                if groups
                else "name a group of match, for example (?P<name>…)"
            )
            fix = did_you_mean(hit[1], groups) or there
            raise EnrichmentError(f"set.{key} is {template!r}, but match has no group {hit[1]!r}", fix)
