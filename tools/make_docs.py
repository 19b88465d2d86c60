"""Complete the pages of the documentation site. mkdocs runs this file as a hook (`make docs`).

- The text of a page from `<!-- generated: NAME -->` to `<!-- end of NAME -->` comes from the code: commands,
  the Python API, schema keys, columns, counters and measurements. It is committed, for readers of the
  repository.
- README.md and other pages outside of docs/ become pages of the site, and so do the notebooks.
- A link to a file that is not on the site becomes text.

    python tools/make_docs.py counters    # print one generated text
    python tools/make_docs.py             # write the texts of all pages; or: make fields
"""

from __future__ import annotations

import base64
import functools
import importlib
import inspect
import json
import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from benchmarks.collecting.report import make_tables
from flowbuf import STATUSES, Schema
from flowbuf.cli.main import COMMANDS, main
from flowbuf.collect.metrics import GAUGES, METRICS
from flowbuf.collect.streams.sessions import REASONS
from flowbuf.schema import Column, loader
from flowbuf.schema.column import COLUMN_KEYS
from tools import python_reference

ROOT = Path(__file__).resolve().parents[1]

# Pages with another place on the site than below docs/. Two README.md cannot both be index.html.
OUTSIDE = {
    "README.md": "index.md",
    "docs/README.md": "contents.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CHANGELOG.md": "project/changelog.md",
    "ext/README.md": "project/core.md",
    "benchmarks/README.md": "project/benchmarks.md",
    "benchmarks/lab/README.md": "project/lab.md",
    "benchmarks/peers/README.md": "project/peers.md",
}

NOTEBOOKS = {f"notebooks/{path.name}": f"notebooks/{path.stem}.md" for path in ROOT.glob("notebooks/*.ipynb")}

# Pages of the Python reference, with their names.
PYTHON = {
    "decoding": (
        *("flowbuf.Decoder", "flowbuf.DecodeOptions", "flowbuf.SamplingRule", "flowbuf.CaptureReader"),
        *("flowbuf.encode_capture", "flowbuf.EncodeResult"),
        *("flowbuf.load_state", "flowbuf.save_state", "flowbuf.STATUSES", "flowbuf.__version__"),
    ),
    "collector": (
        *("flowbuf.Collector", "flowbuf.SessionOptions", "flowbuf.collect.intake.IntakeCounters"),
        *("flowbuf.collect.queue.QueueCounters", "flowbuf.collect.worker.WorkerCounters"),
        *(
            "flowbuf.collect.streams.worker.StreamCounters",
            "flowbuf.collect.streams.sessions.SessionCounters",
        ),
    ),
    "columns": (
        *(
            "flowbuf.read_capture",
            "flowbuf.scan",
            "flowbuf.read_messages",
            "flowbuf.FlowStream",
            "flowbuf.FlowBatch",
        ),
        "flowbuf.encode_columns",
    ),
    "schemas": ("flowbuf.Schema", "flowbuf.Column"),
    "codec": (
        *("flowbuf.Codec", "flowbuf.ObjectReader", "flowbuf.AsyncObjectReader", "flowbuf.field"),
        *("flowbuf.NULL", "flowbuf.UNKNOWN_FIELDS"),
    ),
    "kafka": (
        *("flowbuf.KafkaSink", "flowbuf.ProduceReport", "flowbuf.KafkaSource"),
        *("flowbuf.kafka.batches.SourceBatch", "flowbuf.kafka.batches.BatchLimits"),
        *("flowbuf.kafka.dead_letters.Fault", "flowbuf.SchemaRegistry"),
    ),
    "clickhouse": (
        *("flowbuf.clickhouse.Local", "flowbuf.clickhouse.TableOptions", "flowbuf.clickhouse.KafkaOptions"),
        *("flowbuf.clickhouse.to_ddl", "flowbuf.clickhouse.to_text", "flowbuf.clickhouse.drop_ddl"),
        *("flowbuf.clickhouse.migration", "flowbuf.clickhouse.insert_query"),
        "flowbuf.clickhouse.sink.ClickHouseSink",
    ),
    "enrichment": (
        *("flowbuf.enrich.load_enrichments", "flowbuf.enrich.Pipeline", "flowbuf.enrich.Enrichment"),
    ),
    "spark": ("flowbuf.spark.FlowbufDataSource",),
    "wire": tuple(f"flowbuf.wire.{name}" for name in importlib.import_module("flowbuf.wire").__all__),
    "errors": (
        *("flowbuf.FlowbufError", "flowbuf.CaptureError", "flowbuf.SchemaError", "flowbuf.DecodeError"),
        *("flowbuf.EncodeError", "flowbuf.EnrichmentError", "flowbuf.QueryError", "flowbuf.StateError"),
        *("flowbuf.ListenError", "flowbuf.ConfigError", "flowbuf.SpoolError"),
        *("flowbuf.KafkaError", "flowbuf.errors.PartitionLost", "flowbuf.ClickHouseError"),
    ),
}


# Markdown ---------------------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Return plain text as Markdown for a table cell or a paragraph. Text in backticks stays code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else _escape(part) for part in parts)


def _escape(text: str) -> str:
    return re.sub(r"([*_\[|])", r"\\\1", text.replace("&", "&amp;").replace("<", "&lt;"))


def code(text: str) -> str:
    r"""Return text as code for a table cell.

    A repository's viewer needs \| for a pipe in a table. The site needs a plain pipe: see `unescape_pipes`.
    """
    escaped = text.replace("|", r"\|")
    return f"`{escaped}`"


def unescape_pipes(markdown: str) -> str:
    """Return a page whose code in tables has plain pipes, which Python-Markdown expects there."""

    def unescape(row: re.Match[str]) -> str:
        return re.sub(r"`[^`]*`", lambda code: code[0].replace(r"\|", "|"), row[0])

    return re.sub(r"(?m)^\|.*$", unescape, markdown)


def table(headings: list[str], rows: Iterator[list[str]] | list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def first_sentence(docstring: str) -> str:
    return re.split(r"(?<=\.)\s", " ".join(docstring.split("\n\n")[0].split()))[0]


# Commands ---------------------------------------------------------------------------------------------------


NOT_RUN = "<!-- not run: the examples name files and servers of the reader; a test parses them -->"


def all_commands(parent: click.Context | None = None) -> Iterator[click.Context]:
    """Yield the context of every command, each before its own commands."""
    parent = parent or click.Context(main, info_name="flowbuf")
    group = parent.command
    assert isinstance(group, click.Group)
    for name in COMMANDS if group is main else group.list_commands(parent):
        command = group.get_command(parent, name)
        assert command
        context = click.Context(command, info_name=name, parent=parent)
        yield context
        if isinstance(command, click.Group):
            yield from all_commands(context)


def commands() -> str:
    """Return a table of the commands, and every command with its help text and options."""
    contexts = list(all_commands())
    rows = [
        [
            f"[`{each.command_path}`](#{each.command_path.replace(' ', '-')})",
            escape(first_sentence(each.command.help or "")),
        ]
        for each in contexts
    ]
    return "\n".join(
        [table(["Command", "Purpose"], rows), *(text for each in contexts for text in _describe(each))]
    )


def _describe(context: click.Context) -> Iterator[str]:
    command = context.command
    yield f"{'#' * len(context.command_path.split())} {context.command_path}\n"
    yield f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield _help_text(inspect.cleandoc(command.help or ""))
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = filter(None, (each.get_help_record(context) for each in options if "--help" not in each.opts))
    rows = [[code(option), escape(_mark_options(text))] for option, text in records]
    if rows:
        yield table(["Option", "Effect"], rows)


def _mark_options(text: str) -> str:
    """Return text with its options as code, with values such as flows,counters or group:NAME."""
    value = r"(?:\s(?=\w+[,:_])[\w,:]+\w)?"
    option = rf"(?<![\w'\"`-])(?:--[a-z][a-z-]*{value}|-[a-zA-Z]\b)"
    return re.sub(option, lambda found: "`" + " ".join(found[0].split()) + "`", text)


def _help_text(text: str) -> str:
    """Return the help text of a command as Markdown. Examples are commands; click marks them by \\b."""
    paragraphs = []
    for paragraph in text.replace("\b\n", "\b").split("\n\n"):
        if not paragraph.startswith("\b"):
            paragraphs.append(escape(_mark_options(paragraph)))
            continue
        title, *lines = paragraph[1:].split("\n")
        examples = inspect.cleandoc("\n".join(lines))
        paragraphs += [title, f"{NOT_RUN}\n```sh\n{examples}\n```"]
    return "\n\n".join(paragraphs) + "\n"


# Python -----------------------------------------------------------------------------------------------------


def python_page(name: str) -> str:
    """Return the directives of mkdocstrings for one page."""
    return "\n\n".join(f"::: {path}" for path in PYTHON[name])


def python_names(link: Callable[[str, str], str] = "[`{1}`][{1}]".format) -> str:
    """Return a table of all documented names.

    Args:
        link: Return the link to a name, from its page and its path. Default: a link of mkdocstrings.

    Raises:
        LookupError: a public name of flowbuf is on no page.
    """
    missing = {f"flowbuf.{name}" for name in importlib.import_module("flowbuf").__all__}
    missing -= {path for paths in PYTHON.values() for path in paths}
    if missing:
        raise LookupError(f"add to PYTHON in tools/make_docs.py: {', '.join(sorted(missing))}")
    rows = [
        [
            link(page, path),
            escape(first_sentence(python_reference.find(path).docstring.value)),
            f"[{page}]({page}.md)",
        ]
        for page, paths in PYTHON.items()
        for path in paths
    ]
    return table(["Name", "Summary", "Page"], rows)


def _link_to_heading(page: str, path: str) -> str:
    return f"[`{path}`]({page}.md#{python_reference.anchor(path)})"


# Schemas ----------------------------------------------------------------------------------------------------


def schema_file() -> str:
    """Return the format of a schema file, which the docstring of the loader describes."""
    text = inspect.cleandoc(loader.__doc__ or "").partition("\n\n")[2]
    text = re.sub(r"^(.+)\n-+$", r"## \1", text, flags=re.MULTILINE)
    blocks = re.sub(r"(?:^ {4}.*\n?|^\n(?= {4}))+", _toml, text, flags=re.MULTILINE)
    return blocks + "\n"


def _toml(block: re.Match[str]) -> str:
    return f"```toml\n{inspect.cleandoc(block[0])}\n```\n"


def column_keys() -> list[dict[str, str]]:
    """Return the keys of a `[[column]]` table with their descriptions: of all columns, then of objects.

    The docstring of Column describes them.
    """
    sections = re.findall(
        r"^Attributes.*:\n((?: {4}.*\n?)+)", inspect.cleandoc(Column.__doc__ or ""), re.MULTILINE
    )
    item = re.compile(r"^ {4}(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", re.MULTILINE)
    return [
        {key: " ".join(text.split()) for key, text in item.findall(section) if key in COLUMN_KEYS}
        for section in sections
    ]


def schema_keys() -> str:
    """Return tables of the keys of a column: those of all columns, and those of objects."""
    described = column_keys()
    kinds = {str: "string", int: "integer", bool: "boolean", list: "list", dict: "table"}
    types = {key: kinds[kind] for key, kind in COLUMN_KEYS.items()}
    # The loader expands it.
    types["mirror"], described[0]["mirror"] = "table", "The same column of the other direction: see above."
    plain, objects = (
        table(
            ["Key", "TOML type", "Meaning"],
            [[code(key), types[key], escape(text)] for key, text in section.items()],
        )
        for section in described
    )
    return f'{plain}\nKeys of schemas with `rows = "records"`:\n\n{objects}'


def columns() -> str:
    """Return the columns of the built-in schemas of flows and counters."""
    parts = []
    for name in ("flow", "sflow_counters", "options"):
        parts += [
            f"## {name}",
            table(["Number", "Column", "Type", "Group", "Default", "Description"], _rows(name)),
        ]
    return "\n\n".join(parts)


def _rows(name: str) -> Iterator[list[str]]:
    for column in Schema.load(name):
        kind = f"{'repeated ' if column.repeated else ''}{column.type}"
        unit = f" ({column.unit})" if column.unit else ""
        state = "on" if column.enabled else "off"
        group = code(column.group) if column.group else ""
        yield [str(column.number), code(column.name), kind + unit, group, state, escape(column.doc)]


# Counters ---------------------------------------------------------------------------------------------------

CLASSES = {"fault": "Faults", "loss": "Losses", "note": "Notes"}


def counters() -> str:
    """Return the counters by class, with their explanations."""
    parts = []
    for kind, title in CLASSES.items():
        rows = [[code(name), escape(text)] for name, (each, text) in STATUSES.items() if each == kind]
        parts += [f"### {title}", table(["Counter", "Meaning"], rows)]
    return "\n\n".join(parts)


def metrics() -> str:
    """Return the metrics of the collector by their names in Prometheus."""
    rows = [
        [code(f"flowbuf_{name}{'' if name in GAUGES else '_total'}"), escape(text)]
        for name, text in METRICS.items()
    ]
    return table(["Metric", "Meaning"], rows)


def session_reasons() -> str:
    """Return the reasons for which sessions over TCP and TLS are closed or refused."""
    return table(["Reason", "Meaning"], [[code(reason), escape(text)] for reason, text in REASONS.items()])


# Measurements -----------------------------------------------------------------------------------------------

COLLECTOR_RESULTS = ROOT / "benchmarks/collector.json"
COLLECTOR_CHART = COLLECTOR_RESULTS.with_suffix(".svg")
COMMAND = "python benchmarks/collector.py --results benchmarks/collector.json"


def collector_results(chart: str = COLLECTOR_CHART.name) -> str:
    """Return the chart and the tables of benchmarks/collector.json.

    Args:
        chart: Path of the chart from the page. Default: that of the site.
    """
    if not COLLECTOR_RESULTS.exists():
        return f"No results are recorded in this version. `{COMMAND}` records them.\n"
    image = [f"![Chart of the results]({chart})", ""] if COLLECTOR_CHART.exists() else []
    return "\n".join([*image, *make_tables(json.loads(COLLECTOR_RESULTS.read_text()), level=3)]) + "\n"


GENERATED: dict[str, Callable[[], str]] = {
    "commands": commands,
    "python-names": python_names,
    **{f"python-{name}": lambda name=name: python_page(name) for name in PYTHON},
    "schema-file": schema_file,
    "schema-keys": schema_keys,
    "columns": columns,
    "counters": counters,
    "metrics": metrics,
    "session-reasons": session_reasons,
    "collector-results": collector_results,
}

# Texts that the site has in another form: mkdocstrings makes its Python reference.
IN_REPOSITORY: dict[str, Callable[[], str]] = {
    "python-names": lambda: python_names(_link_to_heading),
    **{f"python-{name}": functools.partial(python_reference.describe, PYTHON[name]) for name in PYTHON},
    "collector-results": lambda: collector_results("../../benchmarks/collector.svg"),
}

MARK = re.compile(r"(?ms)^<!-- generated: ([\w-]+) -->\n.*?^<!-- end of \1 -->$")


def complete(markdown: str) -> str:
    """Return a page of the site with its generated texts. Raises KeyError if a name is unknown."""
    return MARK.sub(lambda mark: GENERATED[mark[1]](), markdown)


def write_again(markdown: str) -> str:
    """Return a page of the repository whose generated texts are current."""
    return MARK.sub(lambda mark: _write(mark[1]), markdown)


def _write(name: str) -> str:
    text = (GENERATED | IN_REPOSITORY)[name]()
    return f"<!-- generated: {name} -->\n{text.rstrip()}\n\n<!-- end of {name} -->"


# Notebooks --------------------------------------------------------------------------------------------------


def convert_notebook(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its charts by file name."""
    parts: list[str] = []
    charts: dict[str, bytes] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{cell['id']}-{len(charts)}.png"
                charts[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Chart]({name})")
            else:
                text = "".join(output.get("text") or data.get("text/plain", ()))
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n", charts


# Links ------------------------------------------------------------------------------------------------------


def site_path(name: str) -> str | None:
    """Return the place of a file of the repository on the site, or None if it is not there."""
    if place := OUTSIDE.get(name) or NOTEBOOKS.get(name):
        return place
    return name.removeprefix("docs/") if name.startswith("docs/") else None


def relink(markdown: str, name: str) -> str:
    """Return a page with links for the site. Links to files that are not on the site become text.

    Args:
        markdown: Text of the page.
        name: Path of the page in the repository.
    """
    here = posixpath.dirname(site_path(name) or "")

    def change(link: re.Match[str]) -> str:
        text, target, anchor = link["text"], link["target"], link["anchor"] or ""
        if re.match(r"\w+:", target):
            return link[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        place = site_path(path)
        if place:
            return f"[{text}]({posixpath.relpath(place, here or '.')}{anchor})"
        if not (ROOT / path).exists():
            return link[0]  # mkdocs reports it
        return text if path in text else f"{text} (`{path}`)"

    pattern = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?\)")
    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else pattern.sub(change, part) for part in parts)


# Hooks of mkdocs --------------------------------------------------------------------------------------------


def on_files(files: Any, config: Any) -> Any:
    """Add the pages outside of docs/, the notebooks with their charts, and the chart of the collector."""
    from mkdocs.structure.files import File

    for name, place in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / name)))
    for name, place in NOTEBOOKS.items():
        markdown, charts = convert_notebook(ROOT / name)
        files.append(File.generated(config, place, content=markdown))
        for chart, image in charts.items():
            files.append(File.generated(config, f"notebooks/{chart}", content=image))
    if COLLECTOR_CHART.exists():
        place = f"explanation/{COLLECTOR_CHART.name}"
        files.append(File.generated(config, place, abs_src_path=str(COLLECTOR_CHART)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Complete a page. The home page has no other pages beside it in the navigation."""
    places = {place: name for name, place in (OUTSIDE | NOTEBOOKS).items()}
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["navigation"]
    return relink(unescape_pipes(complete(markdown)), places.get(place, f"docs/{place}"))


if __name__ == "__main__":
    if sys.argv[1:]:
        click.echo(GENERATED[sys.argv[1]]())
    else:
        for each in ROOT.glob("docs/**/*.md"):
            each.write_text(write_again(each.read_text(encoding="utf-8")), encoding="utf-8")
