"""The layers, read from the imports: models know numpy and numba, topics know msgspec, app knows the rest. And names:
what is searched for stands in one place, and is a thing or a deed of the field.

The pure part of app (predict, join, score, learn, checkpoint encoding, reading data) never imports Kafka or asyncio.
"""

import ast
import functools
import importlib.metadata
import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.trees import nodes, tree

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = "app", "models", "topics"
# What a package may import: packages of ours, and libraries. "" is what stands in riparian itself.
ALLOWED = {
    "models": {"models", "numpy", "numba"},
    "": {"", "models", "numpy"},
    "topics": {"topics", "numpy", "msgspec"},
}
# What numba makes code with, for types and instructions that are not numba's own.
CODE = {f"models/kernels/{name}.py" for name in ("ahead", "frames", "simd", "words")}
# Libraries of the extras, each known to one module that is imported in a process of its own, or where they are there.
EXTRAS = {
    "models/extras.py": {"packaging"},
    "models/batch/fit.py": {"sklearn", "xgboost"},
    "riparian/estimators.py": {"sklearn"},
    "models/frames.py": {"pyarrow"},
    "riparian/past.py": {"app", "pyarrow", "topics"},  # a file through what the worker runs
    **{
        f"topics/formats/arrow/{name}.py": {"pyarrow"}
        for name in ("codec", "columns", "messages", "predictions", "rows")
    },
    "topics/formats/avro/codec.py": {"fastavro"},
    "topics/formats/avro/types.py": {"fastavro"},
    **{
        f"topics/formats/protobuf/{name}.py": {"google"}
        for name in ("codec", "predictions", "proto_text", "reader", "types")
    },
    "topics/decoding/text_kernel.py": {"models"},
    # Walk blocks of records: imported when there is the first one.
    **{
        f"topics/formats/{name}.py": {"models"}
        for name in ("avro/kernel", "json/kernel", "json/number", "json/shortest", "json/writing")
    },
} | {path: {"llvmlite"} for path in CODE}
# Fits go on in processes beside the stream, and a thread each waits for their pipes; trees may run in threads.
THREADED = {"models/batch/process.py", "models/kernels/threads.py"}
# Folders of app, and modules of it, that never lead to Kafka or asyncio.
PURE = (
    *("partition", "dataset", "evaluation", "stream_file", "errors"),
    *("state/checkpoint", "state/audit/proof", "state/log"),
)
# Floors, the lowest first: folders and modules. Each may import from those below it, and none from beside it.
APP_FLOORS = (
    {"errors", "compiling", "references", "rules"},
    {"stream_file"},
    {"partition"},
    {"dataset"},
    {"evaluation", "registry"},
    {"kafka"},
    {"state"},
    {"comparisons", "inspection", "replay", "retries", "worker"},
    {"page"},
    {"demo"},
    {"cli"},
)
FORMATS_FLOORS = ({"common"}, {"avro", "json", "protobuf"}, {"arrow", "json_schema"})
KAFKA = {"faust", "aiokafka", "mode", "asyncio", "prometheus_client"}


def sources(package):
    found = sorted((ROOT / package).rglob("*.py") if package else (ROOT / "riparian").glob("*.py"))
    assert found
    return found


@functools.cache
def imports(path):
    """Full names of all modules that a file imports, anywhere in it."""
    names = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def ours(name):
    """A module of ours by its place below the package, such as app.worker.assignment; None where it is none."""
    top, _, rest = name.partition(".")
    if top != "riparian":
        return None
    return rest if rest.partition(".")[0] in PACKAGES else ""


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def top_level(path):
    """Libraries that a file imports, and packages of ours."""
    return {name.partition(".")[0] if ours(name) is None else ours(name).partition(".")[0] for name in imports(path)}


@pytest.mark.parametrize("package", ALLOWED)
def test_what_a_package_may_import(package):
    for path in sources(package):
        extras = EXTRAS.get(str(path.relative_to(ROOT)), set())
        foreign = top_level(path) - ALLOWED[package] - extras - set(sys.stdlib_module_names)
        assert not foreign, f"{path.relative_to(ROOT)} imports {sorted(foreign)}"


@pytest.mark.parametrize("package", ALLOWED)
def test_lower_layers_do_without_asyncio_and_threads(package):
    for path in sources(package):
        found = top_level(path) & {"asyncio", "threading", "socket", "multiprocessing"}
        assert not found or str(path.relative_to(ROOT)) in THREADED, f"{path.relative_to(ROOT)} imports {sorted(found)}"


@pytest.mark.parametrize(("folder", "floors"), [("app", APP_FLOORS), ("topics/formats", FORMATS_FLOORS)])
def test_folders_have_one_direction(folder, floors):
    """None leads back to itself by way of others: what two of them share stands below both."""
    floor = {name: number for number, names in enumerate(floors) for name in names}
    begin = f"riparian.{folder.replace('/', '.')}."
    for path in sources(folder):
        here = path.relative_to(ROOT / folder).with_suffix("").parts[0]
        assert here in floor or here == "__init__", f"{folder}/{here} has no floor"
        for name in imports(path):
            there = name.removeprefix(begin).partition(".")[0] if name.startswith(begin) else here
            if there != here and there in floor:
                assert floor[there] < floor[here], f"{path.relative_to(ROOT)} imports {name}, which is not below it"


def test_no_module_leads_back_to_itself():
    paths = [*sources("app"), *sources("models"), *sources("topics")]
    names = {path: module_of(path) for path in paths}
    left = {name: set(map(ours, imports(path))) & set(names.values()) - {name} for path, name in names.items()}
    while ends := {name for name, others in left.items() if not others & left.keys()}:
        left = {name: others for name, others in left.items() if name not in ends}
    # What is left imports a module of a cycle, directly or not: those that nothing left imports are no part of it.
    while tops := left.keys() - set().union(*left.values()):
        left = {name: others for name, others in left.items() if name not in tops}
    assert not left


def test_a_partition_has_ten_floors():
    """A module stands one floor above the highest of those in the folder that it imports."""
    paths = {module_of(path): path for path in sources("app/partition")}

    @functools.cache
    def floor(name):
        return 1 + max((floor(other) for other in map(ours, imports(paths[name])) if other in paths), default=0)

    assert max(map(floor, paths)) <= 10


def reached(module, known):
    """A module of app, and every one that it imports, directly or not, added to `known`: paths."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    if path not in known and path.is_file():
        known.add(path)
        for name in filter(None, map(ours, imports(path))):
            reached(name, known)
    return known


@pytest.mark.parametrize("name", PURE)
def test_the_pure_part_of_app_knows_no_kafka(name):
    folder = ROOT / "app" / name
    begin = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    known = set()
    for path in begin:
        before = set(known)
        reached(".".join(path.relative_to(ROOT).with_suffix("").parts), known)
        assert path in known
        for module in known - before:
            found = top_level(module) & KAFKA
            assert not found, f"{path.relative_to(ROOT)} leads to {module.relative_to(ROOT)}, which imports {found}"


def identifiers(path):
    """Every name in a file that is not text: imported, used, of a parameter or of an argument."""
    names = set()
    for node in nodes(path):
        for field in ("id", "attr", "arg", "name"):
            names.add(getattr(node, field, None))
    return names


def test_kafka_clients_are_made_in_one_module():
    """What lets a client in, a password say, is then given to all of them."""
    connection = ROOT / "app" / "kafka" / "connection.py"
    clients = {"AIOKafkaConsumer", "AIOKafkaProducer", "AIOKafkaAdminClient", "AIOKafkaClient", "bootstrap_servers"}
    assert clients <= identifiers(connection)
    for path in sources("app"):
        found = identifiers(path) & clients
        assert path == connection or not found, f"{path.relative_to(ROOT)} names {sorted(found)}"


def test_only_codecs_know_what_the_bytes_of_a_record_say():
    """Another format of features, labels or predictions is then a codec, and nothing else."""
    folders = [path for folder in ("partition", "state", "worker", "kafka") for path in sources(f"app/{folder}")]
    for path in [*folders, ROOT / "app" / "replay.py"]:
        if path.name == "broker.py":  # keeps a note of the process that it started
            continue
        # Web pages are no records, and neither is what a token endpoint answers.
        known = ("metrics.py", "web.py", "tokens.py")
        assert "json" not in identifiers(path) | top_level(path) or path.name in known, path
    for path in sources("topics"):
        if "formats" not in path.parts:
            # Numbers in headers are written as in JSON, whatever the format of the value.
            known = ("reports.py", "commands.py", "vocabulary.py", "headers.py")
            assert "json" not in identifiers(path) or path.name in known, path.name


def test_only_one_module_decorates_kernels():
    for path in sources("models"):
        if "numba" in top_level(path):
            own = {f"models/kernels/{name}.py" for name in ("kernel", "cache", "compiler")}
            assert str(path.relative_to(ROOT)) in {*own, *CODE}


def test_kernels_never_use_hidden_random_state():
    for path in sources("models"):
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and node.attr == "random":
                assert not (isinstance(node.value, ast.Name) and node.value.id == "np"), path.relative_to(ROOT)


def test_every_package_is_shipped():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    found = {f"riparian/{path.parent.relative_to(ROOT)}" for package in PACKAGES for path in sources(package)}
    assert {"riparian"} | {name.replace("/", ".") for name in found} == {n for n in listed if "deploy" not in n}
    assert len(set(listed)) == len(listed)
    for package in found:
        assert (ROOT / package / "__init__.py").is_file(), package


def test_arguments_of_kernels_differ_in_name_or_fields():
    """numba knows a NamedTuple by its name and fields, not by its module: of two alike, the second one in a process
    would be looked up anew at every call of a kernel, for 0.35 ms."""
    known = {}
    for path in sources("models"):
        for node in nodes(path):
            if isinstance(node, ast.ClassDef) and any(getattr(base, "id", "") == "NamedTuple" for base in node.bases):
                fields = tuple(part.target.id for part in node.body if isinstance(part, ast.AnnAssign))
                assert (node.name, fields) not in known, f"{path} repeats {node.name} of {known[node.name, fields]}"
                known[node.name, fields] = path
    assert known


@pytest.mark.parametrize("package", ["models"])
def test_a_folder_is_small_and_says_what_it_has(package):
    """At most fourteen files, and an `__init__` that says what is there."""
    for folder in {path.parent for path in sources(package)}:
        assert len(list(folder.glob("*.py"))) <= 14, f"{folder.relative_to(ROOT)} has more than fourteen files"
        text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
        assert text, f"{folder.relative_to(ROOT)} says nothing"
        assert len(text.splitlines()) <= 10, f"{folder.relative_to(ROOT)} says too much"


def test_a_module_that_is_named_by_its_path_stands_there() -> None:
    path = re.compile(r"\b(?:app|benchmarks|deploy|models|tests|topics)/[\w/]+\.py\b")
    folders = "app", "benchmarks", "deploy", "docs", "models", "riparian", "tests", "topics"
    kinds = "py", "md", "js", "toml", "yaml", "properties"
    files = [f for folder in folders for kind in kinds for f in (ROOT / folder).rglob(f"*.{kind}")]
    files += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml")]
    named = {(f.relative_to(ROOT), one) for f in files for one in path.findall(f.read_text())}
    assert len(named) > 100
    assert not [f"{file}: {one}" for file, one in named if not (ROOT / one).exists()]


# Whether models are of one partition or of all is chosen once, by `KINDS` of app/partition/learner.py. Where something
# else depends on it: file and function -> how often, and why.
ASKS_WHO_LEARNS = {
    "app/stream_file/spec.py of_all": (1, "what the stream file says"),
    "app/stream_file/spec.py _name_topics": (1, "the log has a name where there is one"),
    "app/stream_file/sections/join.py check_unlabelled": (1, "corrections do not come to other partitions"),
    "app/stream_file/sections/keys.py check_keys": (1, "what labels tell of keys comes to all partitions"),
    "app/partition/changes.py _learning": (1, "a state of models of the other kind does not fit"),
    "app/state/audit/backtest.py of_models": (1, "one partition is folded alone"),
    "app/state/transfer.py _check_beginning": (2, "all partitions begin with one model, or each with its own"),
    "app/cli/state/rollback.py command": (1, "one partition cannot go back alone"),
}
WHO_LEARNS = {
    *("SHARED", "PARTITION", "STATE", "OwnLearning", "SharedLearning", "FollowedLearning", "SharedLineup"),
    *(".shares", ".sharing", "learning.kind", "topics.learned"),
}


def named_in(node):
    """Names and attributes in an expression, these also with what they are of."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            owner = getattr(one.value, "attr", getattr(one.value, "id", ""))
            yield from (f".{one.attr}", f"{owner}.{one.attr}")


def asked(tree):
    """Function -> lines whose condition, or look at a type or an attribute, depends on who learns."""
    found = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in ast.walk(function):
            conditions = [getattr(node, "test", None), *getattr(node, "ifs", ()), getattr(node, "subject", None)]
            if isinstance(node, ast.BoolOp | ast.Compare):
                conditions.append(node)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "getattr", "hasattr"):
                conditions.append(node)
            for one in filter(None, conditions):
                if not WHO_LEARNS.isdisjoint(named_in(one)) and not isinstance(node, ast.Assert):
                    found.setdefault(function.name, set()).add(one.lineno)
    return found


def test_who_learns_is_chosen_once():
    """A condition on it elsewhere would be a second place that knows how the two differ."""
    planted = "def f(spec, x):\n    a = 1 if spec.shares else 2\n    return isinstance(x, SharedLearning) or a"
    assert asked(ast.parse(planted)) == {"f": {2, 3}}
    found = {}
    for path in sources("app"):
        for name, lines in asked(tree(path)).items():
            found[f"{path.relative_to(ROOT)} {name}"] = len(lines)
    assert found == {place: n for place, (n, _) in ASKS_WHO_LEARNS.items()}
    assert sum(found.values()) <= 9


# names ---------------------------------------------------------------------------------------------------------------


def class_names():
    """The files of app, models and topics that define each class, by its name."""
    found = defaultdict(list)
    for package in ("app", "models", "topics"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in nodes(path):
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(str(path.relative_to(ROOT)))
    return found


def test_a_class_name_stands_once():
    twice = {name: places for name, places in class_names().items() if len(places) > 1}
    assert not twice


SPEECH = {"told", "tell", "tells", "telling", "said", "say", "says", "saying", "heard", "hear", "spoke", "speaks"}


def test_no_module_function_or_class_is_named_by_a_verb_of_speech():
    found = []
    for package in ("app", "models", "topics", "deploy"):
        for path in sorted((ROOT / package).rglob("*.py")):
            kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            names = [node.name for node in nodes(path) if isinstance(node, kinds)]
            words = {
                name: set(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")) for name in (path.stem, *names)
            }
            found += [f"{path.relative_to(ROOT)}: {name}" for name in words if words[name] & SPEECH]
    assert not found


def test_a_docstring_begins_with_what_the_thing_does():
    found = []
    for package in ("app", "models", "topics"):
        for path in sorted((ROOT / package).rglob("*.py")):
            place = str(path.relative_to(ROOT))
            for node in nodes(path):
                if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    text = ast.get_docstring(node) or ""
                    if text.startswith(("As of ", "As in ", "The same")):
                        found.append(f"{place}: {getattr(node, 'name', '')}: {text[:60]}")
    assert not found


# requirements --------------------------------------------------------------------------------------------------------


def test_whatever_is_imported_is_asked_for() -> None:
    """And not only because something else that is asked for needs it today."""
    of = importlib.metadata.packages_distributions()
    files = [path for package in ("app", "models", "riparian", "topics") for path in (ROOT / package).rglob("*.py")]
    modules = {name.partition(".")[0] for path in files for name in imports(path)} - sys.stdlib_module_names
    names = {canonicalize_name(name) for module in modules for name in of.get(module, [module])} - {"riparian"}
    assert len(names) > 10
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(text for texts in project["optional-dependencies"].values() for text in texts)]
    # numba asks for the one version of llvmlite that it is made for; xgboost has another name on Linux.
    assert names - {canonicalize_name(Requirement(text).name) for text in asked} <= {"llvmlite"}
