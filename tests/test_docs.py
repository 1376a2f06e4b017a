"""What README and docs say can be done can be done: links lead somewhere, stream files are valid, commands exist.

Each line of a `sh` block and each `riparian …`, `make …` and `python -m …` in the text names a command and options that
there are; those that need neither Kafka nor minutes are run. Each `yaml` block is a stream file, or the part of one.
"""

import functools
import gzip
import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
import yaml
from click.testing import CliRunner
from markdown_it import MarkdownIt

from docs.__main__ import MARKED, pages, refreshed, sections
from riparian.app.cli import GROUPS, cli
from riparian.app.cli.run.environment import KNOWN
from riparian.app.dataset.guessing.from_file import stream_name
from riparian.app.kafka.client.sources import CONFIG, PREFIX
from riparian.app.stream_file.spec import build, loads
from riparian.app.stream_file.strict_yaml import parse_yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
CITING = ("app", "models", "topics", "tests", "benchmarks", "deploy", "docs", "examples", "supply")
# `decision 7`, `decisions 5, 6 and 12`, `decisions 5 to 7`; the numbers may be links.
CITED = re.compile(r"\bdecisions?((?:(?:,| and| to| or)?\s\[?\d+\b(?:\]\(\S+?\))?)+)", re.IGNORECASE)
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
SPOKEN = re.compile(r"`((?:nice )?(?:riparian|make|python -m)\s[^`]*)`")
# What a fragment of a stream file is put over.
BASE = {
    "name": "base",
    "task": "classification",
    "features": {"temperature": "numeric", "load": "numeric", "kind": "nominal"},
}


class Said(NamedTuple):
    page: str
    text: str


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@functools.cache
def blocks(language: str) -> list[Said]:
    found = [(page, match) for page in PAGES for match in BLOCK.finditer(page.read_text(encoding="utf-8"))]
    return [Said(name(page), match[3]) for page, match in found if match[2] == language]


@functools.cache
def lines() -> list[Said]:
    """The command lines of all `sh` blocks."""
    return [
        Said(page, shlex.join(shlex.split(line, comments=True)))
        for page, text in blocks("sh")
        for line in text.splitlines()
        if shlex.split(line, comments=True)
    ]


def spoken() -> list[Said]:
    """Commands in the text, with `a|b` taken apart."""
    found = []
    for page in PAGES:
        for match in SPOKEN.finditer(BLOCK.sub("", page.read_text(encoding="utf-8"))):
            words = " ".join(match[1].split()).replace("\\|", "|").removeprefix("nice ").replace("…", "")
            choice = re.search(r"\S+\|\S+", words)
            for one in choice[0].split("|") if choice else [""]:
                found.append(Said(name(page), words.replace(choice[0], one) if choice else words))
    return found


def ids(said: Said) -> str:
    return f"{said.page}: {said.text.splitlines()[0][:60]}"


# links ---------------------------------------------------------------------------------------------------------------


@functools.cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    known: dict[str, int] = {}
    for heading in re.findall(r"^#+ +(.+?) *$", BLOCK.sub("", page.read_text(encoding="utf-8")), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        known[slug] = known.get(slug, -1) + 1
        if known[slug]:
            known[f"{slug}-{known[slug]}"] = 0
    return set(known)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", BLOCK.sub("", page.read_text(encoding="utf-8")))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name(page)} links {target}"
        assert not path or there != page, f"{name(page)} links itself"
        assert not anchor or anchor in anchors(there), f"{name(page)} links {target}: {sorted(anchors(there))}"


def test_tests_and_modules_that_pages_name_are_there() -> None:
    folders = "tests|app|models|topics|benchmarks|examples|supply|deploy"
    for page in PAGES:
        for path, test in re.findall(rf"`((?:{folders})/[\w/.-]+)(?:::(\w+))?`", page.read_text(encoding="utf-8")):
            assert (ROOT / path).exists() or path == "benchmarks/results/", f"{name(page)} names {path}"
            said = f"{name(page)} names {path}::{test}"
            assert not test or re.search(rf"^(?:async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE), said


def test_every_threat_has_a_test_or_is_said_not_to_be_held() -> None:
    table = (
        (ROOT / "docs/evidence/threats.md").read_text(encoding="utf-8").partition("## Threats")[2].partition("\n## ")[0]
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]
    assert len(rows) > 40
    for threat, held, test in rows[2:]:
        assert re.search(r"`tests/[\w/]+\.py::test_\w+`", test) or "Not held" in held, threat


def test_every_guarantee_says_when_it_holds_what_it_does_not_cover_and_its_test() -> None:
    text = (ROOT / "docs/concepts/guarantees.md").read_text(encoding="utf-8")
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) >= 5
    for guarantee, *cells in rows:
        assert len(cells) == 3, guarantee
        assert all(cell.strip() for cell in cells), guarantee
        assert re.search(r"`(?:tests/[\w/]+\.py|make \w+)`", cells[2]), guarantee


def test_the_readme_is_short_and_names_the_test_command() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) <= 600
    assert "make test" in text


# addresses -----------------------------------------------------------------------------------------------------------

# Pages of the site before it had sections: links in alerts, in error messages and elsewhere lead there.
OLD = (
    "accuracy accuracy-batch anomaly architecture bags batch benchmarks commands connect costs dashboard dead-letters "
    "drift ensembles evaluation forecasts forests formats frontier gradient-trees guarantees intervals keys "
    "late-labels learners library live-page metrics operations opinion-pool overrides papers promotion quickstart "
    "reasons security shared-learning shrubs soft-trees state steering stream-file streams"
)
REDIRECTS: dict[str, str] = yaml.safe_load((ROOT / "docs/redirects.yaml").read_text(encoding="utf-8")) or {}


def test_every_old_address_leads_somewhere() -> None:
    for old in OLD.split():
        assert (ROOT / "docs" / f"{old}.md").exists() != (f"{old}.md" in REDIRECTS), f"docs/{old}.md"
    for old, new in REDIRECTS.items():
        path, _, anchor = new.partition("#")
        there = ROOT / "docs" / path
        assert old.partition("#")[0] in REDIRECTS, f"{old}, but not its page"
        assert there.exists(), f"{old} leads to {new}"
        assert not anchor or anchor in anchors(there), f"{old} leads to {new}: {sorted(anchors(there))}"


def test_pages_that_code_names_are_there() -> None:
    suffixes = (".py", ".yaml", ".yml", ".tpl", ".service", ".md", ".js", ".json", ".txt")
    files = [path for folder in CITING if folder != "docs" for path in (ROOT / folder).rglob("*")]
    for path in [*(file for file in files if file.suffix in suffixes), ROOT / "Makefile", ROOT / "deploy/Dockerfile"]:
        for page, anchor in re.findall(r"\bdocs/([\w/-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")):
            there = ROOT / "docs" / page
            assert there.exists(), f"{name(path)} names docs/{page}"
            assert not anchor or anchor in anchors(there), f"{name(path)} names docs/{page}#{anchor}"


# Of tests and benchmarks alone, and those that a test of what nothing reads sets.
BESIDE = {"RIPARIAN_DEMO", "RIPARIAN_DATA", "RIPARIAN_RESULTS"}
UNREAD = {"RIPARIAN_MODEL_KEY", "RIPARIAN_PASSWORD_OF_S", "RIPARIAN_SERVICE_HOST", "RIPARIAN_UI_PORT_"}


def test_variables_of_the_environment_are_read_by_somebody() -> None:
    folders = [*(ROOT / "deploy").rglob("*"), *(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").rglob("*")]
    files = [*PAGES, *(path for path in folders if path.is_file())]
    known = {*KNOWN, CONFIG, *BESIDE, *UNREAD}
    for path in files:
        for variable in re.findall(r"\bRIPARIAN_[A-Z_]+", path.read_text(encoding="utf-8", errors="ignore")):
            assert variable in known or variable.startswith(PREFIX.rstrip("_")), f"{name(path)} names {variable}"


def test_blocks_of_code_are_fenced() -> None:
    """Only these are read by the tests below, and have their language."""
    for page in PAGES:
        found = [
            one.content for one in MarkdownIt().parse(page.read_text(encoding="utf-8")) if one.type == "code_block"
        ]
        assert found == [], f"{name(page)} has a block that is indented"


@pytest.mark.parametrize("said", blocks("json"), ids=ids)
def test_every_json_block_is_json(said: Said) -> None:
    """One document, or one in each line."""
    try:
        json.loads(said.text)
    except ValueError:
        assert [json.loads(line) for line in said.text.splitlines()]


def test_fields_that_pages_name_are_fields_of_the_stream_file() -> None:
    """Such as `join.horizon`, where `join` is a part of the file."""
    fields = {place: {field.alias or name for name, field in part.model_fields.items()} for place, part in sections()}
    for page in PAGES:
        for part, field in re.findall(r"`([a-z_]+)\.([a-z_]+)`", page.read_text(encoding="utf-8")):
            assert field in fields.get(part, field), f"{name(page)} names {part}.{field}"


def test_extras_that_pages_install_are_there() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for page in PAGES:
        for named in re.findall(r"(?:riparian|\.)\[([a-z,]+)\]", page.read_text(encoding="utf-8")):
            assert {*named.split(",")} <= {*extras}, f"{name(page)} installs {named}"


# kinds and prose -----------------------------------------------------------------------------------------------------

KINDS = ("tutorial", "how-to", "reference", "explanation", "contribute", "evidence")
SECTIONS = ("start", "concepts", "build", "run", "reference", "contribute", "evidence")
WORDS = 47_000  # all pages for users, without evidence and decisions
FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
FACED = [page for page in PAGES if FRONT.match(page.read_text(encoding="utf-8"))]
# What a page of evidence may hold alone: days, commits, seeds, machines, and what was otherwise once.
DIARY = re.compile(
    r"\b(?:no longer|anew|used to|formerly|earlier versions?|(?:was|were|been|we) tried|the commit before|"
    r"beside the commit|nowadays|currently|at present|now|two cores|seeds? \d+|\d{4}-\d\d-\d\d|"
    r"(?:January|February|March|April|June|July|August|September|October|November|December)|"
    r"(?=[0-9a-f]{7,40}\b)(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]+)\b",
    re.IGNORECASE,
)
# Verbs of speech for things, and words that are no terms of the field; and .84 for 0.84.
WORDING = re.compile(
    r"\b(?:tells?|told|said|heard|reckons?|foresees?|begins anew|held against|of a regression)\b|(?<![\w.])\.\d"
)


def front(page: Path) -> dict[str, Any]:
    found = FRONT.match(page.read_text(encoding="utf-8"))
    return yaml.safe_load(found[1]) if found else {}


def prose(page: Path, made: bool = False) -> str:
    """The text without front matter, comments, code, addresses of links, and tables. made : with what the code says."""
    text = BLOCK.sub("\n", FRONT.sub("", page.read_text(encoding="utf-8")))
    text = text if made else MARKED.sub("", text)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]+`", "X", text))
    return re.sub(r"^ *\|.*$", "", text, flags=re.MULTILINE)


def sentences(page: Path) -> list[str]:
    """Those of paragraphs and of lists; a heading, an item of a list and a colon at the end of a line end one, too."""
    text = re.sub(r"^ *(?:#+ .*|(?:[-*]|\d+\.) +)", "\n\n", prose(page, made=True), flags=re.MULTILINE)
    parts = re.split(r"\n\s*\n|(?<=[.!?])[*_)\"]*\s+|:\s*\n", text)
    return [" ".join(part.split()) for part in parts if re.search(r"\w\s+\w", part)]


@pytest.mark.parametrize(
    "page", [ROOT / "docs/index.md", *(p for f in SECTIONS for p in (ROOT / "docs" / f).rglob("*.md"))], ids=name
)
def test_a_page_has_a_kind(page: Path) -> None:
    assert front(page).get("kind") in KINDS, f"{name(page)} begins with no kind: one of {KINDS}"


@pytest.mark.parametrize("page", FACED, ids=name)
def test_a_page_keeps_to_its_budget_and_to_plain_words(page: Path) -> None:
    text, given = page.read_text(encoding="utf-8"), front(page)
    outside = MARKED.sub("", BLOCK.sub("", FRONT.sub("", text)))
    assert [match[0] for match in WORDING.finditer(re.sub(r"`[^`]+`|\([^)\s]*\)", "", outside))] == []
    if given["kind"] == "evidence":
        return
    assert len(text.split()) <= given["budget"], f"{len(text.split())} words"
    assert [match[0] for match in DIARY.finditer(prose(page))] == []


@pytest.mark.parametrize("page", [page for page in FACED if front(page)["kind"] != "evidence"], ids=name)
def test_sentences_are_short(page: Path) -> None:
    counts = {sentence: len(sentence.split()) for sentence in sentences(page)}
    assert [sentence for sentence, count in counts.items() if count > 30] == []
    assert sum(counts.values()) <= 20 * len(counts), f"{sum(counts.values()) / len(counts):.1f} words in the mean"


def test_all_pages_together_keep_to_their_budget() -> None:
    users = [page for page in FACED if front(page)["kind"] not in ("evidence", "contribute")]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in users) <= WORDS


@pytest.mark.parametrize("page", pages(), ids=name)
def test_what_is_made_from_the_code_is_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert refreshed(text) == text, "run python -m docs"


# decisions -----------------------------------------------------------------------------------------------------------


def number(record: Path) -> int:
    return int(record.name[:4])


def title(record: Path) -> str:
    return record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


@pytest.mark.parametrize("record", RECORDS, ids=name)
def test_a_decision_is_short_and_has_its_parts(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    assert len(text.split()) <= 250
    assert re.match(rf"# {number(record)}\. \S.*\n\nStatus: (?:accepted|superseded by decision \d+), ", text)
    parts = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [*parts, "Rejected"][:4] == ["Context", "Decision", "Consequences", "Rejected"]
    assert len(parts) in (3, 4)


def test_decisions_are_numbered_without_gaps_and_the_index_has_each() -> None:
    assert [number(record) for record in RECORDS] == [*range(1, len(RECORDS) + 1)]
    index = (ROOT / "docs" / "decisions" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(.+)\]\((\d{4}-[\w-]+\.md)\)$", index, re.MULTILINE)
    assert sorted(listed, key=lambda line: line[1]) == [(title(record), record.name) for record in RECORDS]


def test_a_decision_that_is_cited_is_there_under_its_number() -> None:
    suffixes = (".py", ".md", ".yaml", ".yml", ".js")
    files = [path for folder in CITING for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    known = {number(record) for record in RECORDS}
    for path in [*files, *ROOT.glob("*.md"), ROOT / "mkdocs.yml"]:
        text = path.read_text(encoding="utf-8")
        cited = {int(digits) for listed in CITED.findall(text) for digits in re.findall(r"\s\[?(\d+)", listed)}
        assert cited <= known, f"{name(path)} cites {sorted(cited - known)}"
        for shown, linked in re.findall(r"\[(?:decision )?(\d+)\]\([\w./]*?(\d{4})-[\w-]+\.md", text, re.IGNORECASE):
            assert int(shown) == int(linked), f"{name(path)} calls {linked} decision {shown}"


# stream files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", blocks("yaml"), ids=ids)
def test_every_yaml_block_is_a_stream_file_or_a_part_of_one(said: Said) -> None:
    if {"name", "features"} <= parse_yaml(said.text, said.page).keys():
        loads(said.text, said.page)
    else:
        build({**BASE, **parse_yaml(said.text, said.page)}, said.page)


# commands ------------------------------------------------------------------------------------------------------------


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that words name, and its arguments."""
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no command {words[0]}"
        command, words = found, words[1:]
    return command, words


def check_riparian(said: Said, whole: bool) -> None:
    """whole : parse the arguments as if it were run; else only look whether its options are there."""
    command, words = resolve(shlex.split(said.text)[1:])
    if whole:
        read = [word if word != "client.properties" else os.devnull for word in words]  # it is read with the options
        command.make_context(command.name, read)
        return
    options = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        option = word.partition("=")[0].rstrip(",")
        assert not option.startswith("-") or option in {*options, "--help", "--version"}, f"{said}: no option {option}"


def check_make(said: Said) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for word in shlex.split(said.text)[1:]:
        variable, equals, _ = word.partition("=")
        if equals:
            assert re.search(rf"\$\({variable}\)|^{variable} ", makefile, re.MULTILINE), f"{said}: no {variable}"
        else:
            assert re.search(rf"^{re.escape(word)}:", makefile, re.MULTILINE), f"{said}: no target {word}"


def check_module(said: Said) -> None:
    module = shlex.split(said.text)[2]
    spec = importlib.util.find_spec(module)
    assert spec is not None, said
    options = re.findall(r"(--[\w-]+)", said.text)
    if module.startswith("benchmarks."):
        path = Path(str(spec.origin))
        source = path.with_name("__main__.py") if path.name == "__init__.py" else path
        text = source.read_text(encoding="utf-8")
        for option in options:
            assert option == "--help" or f'"{option}"' in text, f"{said}: {source.name} has no {option}"


@pytest.mark.parametrize("said", [*dict.fromkeys([*lines(), *spoken()])], ids=ids)
def test_every_command_is_there_with_its_options(said: Said) -> None:
    text = said.text.partition(" >")[0].partition(" '>'")[0]
    if text.startswith("riparian"):
        check_riparian(said._replace(text=text), said in lines())
    elif text.startswith("make"):
        check_make(said._replace(text=text))
    elif text.startswith("python -m"):
        check_module(said._replace(text=text))


@pytest.mark.parametrize("said", [said for said in blocks("python") if ">>>" not in said.text], ids=ids)
def test_every_python_block_runs(said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions (>>>) are run by tests/test_library.py."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "app" / "demo" / "data" / "elec.csv.gz", tmp_path)
    exec(compile(said.text, said.page, "exec"), {"__name__": "block"})


# Files that readers bring.
YOURS = {"climate.csv", "history.csv", "machines.csv", "musk.csv.gz", "payments.csv", "trades.csv", "weather.csv.gz"}


def cheap(said: Said) -> bool:
    words = said.text.split()
    if words[0] != "riparian" or "--from-topic" in words or YOURS & {*words}:
        return False
    kafka = not {"--broker", "--kafka-config", "--register"}.isdisjoint(words)
    return words[1] in ("init", "check", "models", "generate", "evaluate") and not kafka


@pytest.mark.parametrize("page", sorted({said.page for said in lines() if cheap(said)}))
def test_what_needs_no_kafka_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of a page, one after the other, with the electricity data in the folder, few rows of them, and with the
    stream files that the page shows whole."""
    monkeypatch.chdir(tmp_path)
    with gzip.open(ROOT / "app" / "demo" / "data" / "elec.csv.gz") as whole:
        (tmp_path / "elec.csv.gz").write_bytes(gzip.compress(b"".join(itertools.islice(whole, 3000))))
    for said in blocks("yaml"):
        shown = parse_yaml(said.text, said.page) if said.page == page else {}
        if {"name", "features"} <= shown.keys() and shown["name"] != "elec":
            (tmp_path / f"{shown['name']}.yaml").write_text(said.text)
    for said in lines():
        if said.page != page or not cheap(said):
            continue
        words, _, out = said.text.partition(" '>' ")
        arguments = shlex.split(words)[1:]
        if arguments[0] == "evaluate":
            arguments += ["--jobs", "1", *([] if "--generate" in arguments else ["--limit", "300"])]
        for option in {"-n", "--drift"} & {*arguments}:
            at = arguments.index(option) + 1
            arguments[at] = f"{int(arguments[at]) // 50}"
        result: Any = CliRunner().invoke(cli, arguments)
        assert result.exit_code == 0, f"{said.text}: {result.exception or result.output}"
        if out:
            (tmp_path / out).write_text(result.stdout)


def test_what_init_makes_of_a_topic_is_checked_by_the_name_that_it_gives() -> None:
    for said, following in itertools.pairwise(lines()):
        words, then = said.text.split(), following.text.split()
        if words[:3] == ["riparian", "init", "--from-topic"] and then[:2] == ["riparian", "check"]:
            assert then[2] == f"{stream_name(words[3])}.yaml", said


def test_help_groups_all_commands():
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=200).output
    for heading, names in GROUPS.items():
        section = shown.split(f"\n{heading}:\n")[1].split("\n\n")[0]
        assert re.findall(r"^  (\w+)  ", section, re.MULTILINE) == list(names)
