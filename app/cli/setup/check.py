"""`riparian check`: whether stream files are valid, and what they declare."""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from riparian.app.cli import broker_option, load, streams_argument
from riparian.app.cli.run.worker import check_apart, slow_models
from riparian.app.cli.setup import reasons_price
from riparian.app.cli.terminal.messages import for_each
from riparian.app.cli.terminal.parsing import WITH_RIGHTS
from riparian.app.errors import AccessError, RiparianError, SpecError, StateError, TopicError, safe
from riparian.app.kafka.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from riparian.app.kafka.access.acls import Right
    from riparian.app.kafka.admin import TopicsReport
    from riparian.app.kafka.topics.keys import Ids
    from riparian.app.partition.changes import Changes
    from riparian.app.state.loading import LearnedLog
    from riparian.app.stream_file.spec import Spec


@click.command()
@partial(streams_argument, required=False)
@click.option("--schema", is_flag=True, help="Print the JSON Schema of stream files, for editors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; of several files, one a line.")
@click.option("--register", is_flag=True, help="Register the schema of predictions, where their codec has one.")
@click.option(
    "--rights",
    "user",
    type=click.Choice(WITH_RIGHTS),
    default="worker",
    show_default=True,
    help="The command whose ACLs are looked at.",
)
@click.option(
    "--compile", "compiling", is_flag=True, help="Compile the kernels of its models, so that no worker waits for it."
)
@click.option("--connect", is_flag=True, help="Look at the cluster that the stream file or the environment names.")
@partial(broker_option, each=True)
@click.pass_context
def command(
    context: click.Context,
    streams: tuple[Path, ...],
    schema: bool,
    as_json: bool,
    register: bool,
    user: str,
    compiling: bool,
    connect: bool,
    connections: list[Connection],
) -> None:
    """Check a stream file and show what it declares; or several, as one worker would run them.

    With --broker, --kafka-config or --connect it is also compared with the topics that are there. The comparison shows
    whether an id and its label come to the same partition, whether Kafka takes records stamped in the future, and which
    ACL is missing. From the state it shows what a worker would carry over, restart, drop or refuse. Where records name
    schemas, the registry is
    asked whether they have what the stream file maps, and whether the schema of predictions is registered.
    """
    if schema:
        from riparian.app.stream_file.json_schema import json_schema

        click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))
        return
    if not streams:
        raise click.UsageError("expected a stream file, found none; give STREAM.yaml or --schema", context)

    # Only an option asks for it: RIPARIAN_BROKER may be set for other commands.
    sources = [context.get_parameter_source(name) for name in ("broker", "kafka_config", "connect")]
    asked = ParameterSource.COMMANDLINE in sources
    several = len(streams) > 1
    known: dict[Path, Spec] = {}

    def one(place: int) -> None:
        file = streams[place]
        summed: dict[str, Any] = {"file": str(file)} if several else {}
        try:
            spec = load(file, connections[place] if asked else None)
            check_apart([*known.values(), spec], [*known, file])
            known[file] = spec
            if compiling:
                from riparian.app.cli.run.kernels import make_ready

                make_ready(spec)
            found = asyncio.run(_look(spec, connections[place], user, asked=asked, register=register))
            if as_json:
                summed |= found.summary(spec, register)
            else:
                found.show(spec, file if several else None)
            found.judge(spec, connections[place], user)
        except RiparianError as error:
            if several:
                summed["error"] = str(error)
            raise
        finally:
            if as_json and summed:
                click.echo(json.dumps(summed, ensure_ascii=False))

    for_each(streams, one)


class BrokerAnswers(NamedTuple):
    """What a broker and a registry tell of a stream; as far as they were asked."""

    report: "TopicsReport | None" = None
    states: "Mapping[int, tuple[int, Changes]] | None" = None
    ids: "Ids | None" = None
    log: "LearnedLog | None" = None
    rate: float | None = None
    warnings: Sequence[str] = ()
    lacking: "Sequence[Right]" = ()
    denied: Sequence[str] = ()

    def summary(self, spec: "Spec", register: bool) -> dict[str, Any]:
        found = _declared(spec)
        if self.report is not None:
            found["partitions_present"], found["missing"] = self.report.partitions, list(self.report.missing)
        if self.ids is not None:
            found["ids"] = {"both": self.ids.both, "apart": self.ids.apart}
        if self.states is not None:
            found["state"] = [
                {"partition": k, "checkpoint": sequence, "changes": [change._asdict() for change in changes.found]}
                for k, (sequence, changes) in self.states.items()
            ]
        if self.log is not None:
            found["learned"] = self.log._asdict()
        if self.report or register:
            found["warnings"] = list(self.warnings)
        if self.lacking:
            found["acls"] = [
                {"kind": right.kind, "name": right.name, "operation": right.operation, "needed": not right.dispensable}
                for right in self.lacking
            ]
        return found

    def show(self, spec: "Spec", file: Path | None) -> None:
        """file : where there are several, whose sentences are told apart by it."""
        if file is not None:
            click.echo(f"{file}:")
        _show(spec, self.report)
        ids = self.ids if self.ids is not None and not self.ids.broken and not self.ids.strange else None
        lines = [ids.sentence()] if ids is not None and spec.partitions > 1 else []
        lines += _of_states(self.states or {})
        if self.rate is not None and spec.most_waiting:
            lines.append(_at_the_rate(spec, self.rate))
        if self.log is not None:
            lines.append(self.log.sentence())
        lines += [f"warning: {sentence}" for sentence in self.warnings]
        lines += [f"denied: {sentence}" for sentence in self.denied]
        for line in lines:
            click.echo(line if file is None else f"{file}: {line}")

    def judge(self, spec: "Spec", connection: Connection, user: str) -> None:
        """Raise what keeps a worker from running."""
        if self.denied:
            raise AccessError(
                f"{len(self.denied)} ACL{'s are' if len(self.denied) > 1 else ' is'} missing for riparian {user} with "
                f"the stream {spec.name} (riparian deploy acls prints all that it needs): {self.denied[0]}"
            )
        from riparian.app.kafka.topics.creating import not_ours
        from riparian.topics.names import changelog_topic

        if self.report is not None and spec.create_topics == "never":
            missing = [*self.report.missing, *([changelog_topic(spec.name)] if self.report.state is None else [])]
            if missing:
                raise not_ours(spec, missing, str(connection))
        if self.ids is not None and self.ids.broken:
            raise TopicError(self.ids.sentence())
        refused = [sentence for _, changes in (self.states or {}).values() for sentence in changes.refused]
        if refused:
            raise StateError(f"no worker can go on with the state of {spec.name}: {refused[0]}")


async def _look(spec: "Spec", connection: Connection, user: str, *, asked: bool, register: bool) -> BrokerAnswers:
    about = await _ask_registry(spec, register) if asked or register else []
    if not asked:
        return BrokerAnswers(warnings=about)
    lacking = await _lacking(spec, connection, user)
    denied = [right.sentence(connection) for right in lacking if not right.dispensable]
    without = [right.sentence(connection) for right in lacking if right.dispensable]
    if denied:
        return BrokerAnswers(warnings=about + without, lacking=lacking, denied=denied)
    found = await _ask(spec, connection)
    return found._replace(warnings=[*about, *found.warnings, *without], lacking=lacking)


async def _lacking(spec: "Spec", connection: Connection, user: str) -> "list[Right]":
    """ACLs that are missing for the command `user`, and for what is looked at here."""
    from riparian.app.kafka.access.acls import needed
    from riparian.app.kafka.access.rights import missing
    from riparian.app.kafka.admin import wait_for_broker

    await wait_for_broker(connection, timeout_seconds=3.0)
    here = [right for right in needed(spec, "check") if not right.dispensable]
    return await missing(connection, list(dict.fromkeys([*needed(spec, user), *here])))


async def _ask_registry(spec: "Spec", register: bool) -> list[str]:
    """What of the registry's schemas may not fit."""
    from riparian.app.registry.client import Registry
    from riparian.app.registry.stream_schemas import begin
    from riparian.topics.codecs import REGISTERED

    registry = Registry.of(spec)
    if register and "predictions" not in spec.codec.registered():
        raise SpecError(
            "--register: expected predictions that have a schema, found none; set codec to "
            f"{' or '.join(REGISTERED)}, or leave it out"
        )
    return [] if registry is None else await begin(registry, spec, register=register)


async def _ask(spec: "Spec", connection: Connection) -> BrokerAnswers:
    from aiokafka.errors import KafkaError

    from riparian.app.kafka import admin
    from riparian.app.kafka.topics import delays, keys, topic_warnings
    from riparian.app.state import growing, loading

    report = await admin.check_topics(spec, connection)
    there = {spec.topics.features, spec.topics.labels} - {None} <= set(report.partitions)
    found = early = unread = None
    if there:
        try:
            found = await keys.sample(spec, connection)
            early = await delays.early_labels(spec, connection)
        except (KafkaError, OSError) as error:
            unread = f"ids and delays of labels were not compared, since records could not be read ({error!r})"
    # Copies have the timestamps of the topics that they come from, which are the ones to look at.
    copies = {getattr(spec.topics, role) for role in spec.copied}
    inputs = [name for name in (spec.topics.features, spec.topics.labels) if name in report.partitions.keys() - copies]
    inputs += report.sources
    admin.check_sources(spec, report)
    warnings = await topic_warnings.warnings(spec, connection, inputs)
    grows = None if report.state is None else growing.prospect(spec, report.partitions)
    warnings += [one for one in (grows, early, unread) if one is not None]
    ids = None if found is None else found.ids
    if found is not None:
        warnings += [*([found.ids.sentence()] if found.ids is not None and found.ids.strange else []), *found.wrong]
    states, log = await loading.prospects(spec, connection), await loading.learned_log(spec, connection)
    return BrokerAnswers(report, states, ids, log, None if found is None else found.rate, warnings)


def _of_states(states: "Mapping[int, tuple[int, Changes]]") -> list[str]:
    """What becomes of each partition's state."""
    lines = []
    for partition, (sequence, changes) in states.items():
        fate = "does not fit" if changes.refused else "goes on" if changes.found else "goes on as it is"
        lines.append(f"state of partition {partition}, checkpoint {sequence:,}: {fate}")
        if changes.steered is not None:
            lines.append(f"  steered: {changes.steered}")
        if changes.kept is not None:
            lines.append(f"  {changes.kept}")
        lines += [f"  {change.fate}: {change.sentence}" for change in changes.found]
    return lines


LONGEST_LABEL = 2 * 4 * 1024 + 64  # bytes of a label with an id of 1,024 characters of four bytes, in arrays that grow


def instance_bytes(spec: "Spec") -> int:
    """Bytes that a waiting instance takes without its id; the largest possible bag."""
    from riparian.app.partition.join.room import OF_ROW, PLACE_BYTES, ROW_BYTES
    from riparian.app.stream_file.sections.keys import past_width
    from riparian.models.registry import memo_names

    classes = spec.class_vocabulary()
    n_outputs = 1 if classes is None else max(2, classes.capacity)
    x = 8 * (len(spec.features) + past_width(spec) + (0 if spec.label.of is None else OF_ROW))
    if spec.task == "multi-instance":
        x = PLACE_BYTES + spec.record.max_instances * x
    vectors = sum(1 + len(memo_names(model, spec.task, parameters)) for model, parameters in spec.models().values())
    if spec.predictions.coverage is not None:
        from riparian.models.predictions.conformal import N_REGIONS

        vectors += N_REGIONS[spec.task == "regression"]
    vectors += ((spec.predictions.calibrated is not False) + (spec.decision is not None)) * len(spec.models())
    return ROW_BYTES + x + 8 * n_outputs * vectors


def waiting_bytes(spec: "Spec") -> int:
    """Bytes that the instances of a full pending store take, per partition, without their ids."""
    return min(spec.most_waiting * instance_bytes(spec), spec.join.max_pending_bytes)


def in_memory(spec: "Spec", n: int, n_bytes: int) -> int:
    """Of the bytes of n instances that wait, those that a worker has in memory; the others lie in files. And the slots
    of their keys."""
    from riparian.app.partition.join.room import INDEX_BYTES, LEAST_BYTES, QUEUE_BYTES

    queues = 0 if spec.label.of is None else QUEUE_BYTES * (n_bytes // instance_bytes(spec))
    return min(n_bytes, LEAST_BYTES + INDEX_BYTES * n) + queues


def _at_the_rate(spec: "Spec", rate: float) -> str:
    """What waits where no label comes before the horizon, at the rate of the partition that has most. rate : instances
    a second."""
    from riparian.app.stream_file.durations import format_duration

    n = _round(rate * spec.join.horizon)
    n_bytes = n * instance_bytes(spec)
    sentence = (
        f"at the {rate:,.3g} instances a second of the busiest partition up to {n:,} wait for "
        f"{format_duration(spec.join.horizon)}: {in_memory(spec, n, n_bytes) / 1e6:,.0f} MB of memory, and up to "
        f"{2 * n_bytes / 1e6:,.0f} MB of disk in --data-dir"
    )
    short = [f"join.max_pending to {n:,}"] if n > spec.join.max_pending else []
    short += [f"join.max_pending_bytes to {n_bytes:,}"] if n_bytes > spec.join.max_pending_bytes else []
    return sentence + (f"; raise {' and '.join(short)}, or the oldest leave before" if short else "")


def joined_bytes(spec: "Spec") -> int:
    """Bytes that remembered ids of joined instances take when there are as many as may be, per partition."""
    from riparian.app.partition.join.room import JOINED_BYTES, most_joined

    if not spec.remembers:
        return 0
    return JOINED_BYTES * most_joined(spec.most_waiting, spec.join.max_pending_bytes)


def _declared(spec: "Spec") -> dict[str, Any]:
    """What the file says, as JSON."""
    resolved, price = spec.resolved(), reasons_price.price_of(spec)
    summary: dict[str, Any] = {
        "name": spec.name,
        "task": spec.task,
        "partitions": spec.partitions,
        "learning": spec.learning.kind,
        "max_behind": spec.learning.max_behind,
        "topics": spec.topics.model_dump(),
        "features": [
            {
                "name": feature.name,
                "type": feature.type,
                "path": list(feature.path),
                "values": spec.features[feature.name].values,
            }
            for feature in spec.mapping().features[: spec.mapping().n_columns]
        ],
        "keys": _keys(spec),
        "classes": spec.classes,
        "models": {
            role: {"model": name, "parameters": parameters} for role, (name, parameters) in spec.models().items()
        },
        "auto": None if resolved is None else resolved._asdict(),
        "waiting_bytes": waiting_bytes(spec),
        "waiting_memory_bytes": in_memory(spec, spec.most_waiting, waiting_bytes(spec)),
        "joined_bytes": joined_bytes(spec),
    }
    return summary if price is None else summary | {"reasons": price._asdict()}


def _keys(spec: "Spec") -> dict[str, dict[str, Any]]:
    """Each key with the features over its past, and the bytes that it takes at most."""
    from riparian.app.stream_file.sections.keys import key_bytes

    return {
        name: {
            "max": key.max,
            "max_bytes": key_bytes(spec, name),
            "features": [feature for feature, one in spec.features.items() if one.past is not None and one.key == name],
        }
        for name, key in spec.keys.items()
        if any(one.past is not None and one.key == name for one in spec.features.values())
    }


def _of_keys(spec: "Spec") -> list[str]:
    from riparian.app.stream_file.sections.keys import memory_sentence

    asked = {one.key for one in spec.features.values() if one.past is not None}
    lines, mapping = [f"keys: {memory_sentence(spec, name)}" for name in spec.keys if name in asked], spec.mapping()
    for name, at in zip(spec.keys, mapping.keys, strict=True):
        if at is not None and at < mapping.n_columns and name != spec.label.by:  # which series it is helps a forecast
            lines.append(
                f"keys: features.{mapping.features[at].name} is the key {name}, too: a tree makes a branch for each of "
                "its values, and is worse than without; leave it out of features, unless it has few"
            )
    return lines


MEANS = {
    "shared": "all partitions learn one model",
    "partition": "each partition has models of its own, which see its records only",
}


def _of_learning(spec: "Spec") -> list[str]:
    """What learns, where there are several partitions."""
    if spec.partitions == 1:
        return []
    bound = spec.learning.max_behind
    kept = "" if bound is None else f"; a prediction waits where it could lack more than {bound:,} joined by its worker"
    workers = "; each worker learns all of it: more of them learn no more a second than one" * spec.shares
    return [f"learning: {spec.learning.kind}: {MEANS[spec.learning.kind]}{kept}{workers}"]


def _of_auto(spec: "Spec") -> list[str]:
    """What `auto` is, what it takes, what a quarter or four times of its time would make of it, and how many values of
    nominal features it sees."""
    from riparian.app.stream_file.lineup import values_of

    resolved = spec.resolved()
    if resolved is None:
        return []
    if not resolved.n_bytes:
        return [f"champion: auto is {resolved.parts}"]

    def rate(microseconds: float) -> str:
        return f"{microseconds:.1f} µs per instance ({_round(1e6 / microseconds):,} per second and core)"

    lines = [
        f"champion: auto is {resolved.parts}, estimated to take {resolved.n_bytes / 1e6:,.1f} MB "
        f"and {rate(resolved.microseconds)}"
    ]
    for what, factor in (("faster", 0.25), ("better", 4.0)):
        wanted = max(1, _round(factor * resolved.microseconds))
        other = spec.resolved(max_microseconds=wanted)
        if other is not None and other.parameters != resolved.parameters:
            lines.append(f"  {what}: max_microseconds: {wanted} is {other.parts}, {rate(other.microseconds)}")
    if further := spec.champion.parameters.get("members"):
        lines.append(f"  members that the stream file names come on top: {', '.join(further)}")
    values = values_of(spec)
    names, parts = list(spec.features), resolved.parameters.get("members", {}).values()
    bounds = {**values.bounds, **{f: values.reckoned[f] for f in values.many}}
    limits = [summed["max_values"] for summed in parts if "max_values" in summed]
    seen = {f: min([bound, *(limit[f] or bound for limit in limits)]) for f, bound in bounds.items()}  # fewest by any
    for f in values.many:
        means = ", and the mean target of each" if any(f in summed.get("target_means", ()) for summed in parts) else ""
        if seen[f] < bounds[f] or means:
            lines.append(f"  {names[f]}: trees see the first {seen[f]} of up to {bounds[f]:,} values{means}")
    fewer = [f for f, bound in values.bounds.items() if seen[f] < bound]
    if fewer:
        lines.append(
            f"  {', '.join(names[f] for f in fewer)}: few values are expected, and some members see the first "
            f"{min(seen[f] for f in fewer)} alone; where there are more, name max_values "
            "(docs/concepts/auto.md#many-values)"
        )
    return lines


def _of_foreign(spec: "Spec") -> list[str]:
    """What models of other libraries take."""
    from riparian.models.adapter.signature import KEY, LEAST
    from riparian.models.registry import FOREIGN

    foreign = [role for role, (name, _) in spec.models().items() if name in FOREIGN]
    secret = f"all workers need the same secret of at least {LEAST} characters in {KEY}: it signs the pickles of "
    return [*slow_models(spec), *([secret + ", ".join(foreign)] if foreign else [])]


def _of_costs(spec: "Spec") -> list[str]:
    """How predictions are decided, and which labels count more."""
    lines, asked = [], spec.decision
    if asked is not None and asked.target is not None:
        name, share = asked.target
        of, its = ("the scores", "the") if asked.class_ is None else (asked.class_, "its")
        lines.append(f"decision: a threshold on {of}, so that {its} {name.replace('_', ' ')} is {share:g}")
    elif asked is not None:
        costs = (
            f"{named} for {true} costs {c if isinstance(c, str) else format(c, 'g')}"
            for true, row in (asked.costs or {}).items()
            for named, c in row.items()
        )
        lines.append(f"decision: the class of least expected cost: {', '.join(costs)}, other mistakes 1")
    if spec.class_weights:
        summed = ", ".join(f"{text} {weight:g}" for text, weight in spec.class_weights.items())
        lines.append(f"class weights in learning: {summed}; probabilities of these classes are not those of the stream")
    return lines


def _of_waiting(spec: "Spec") -> list[str]:
    """What waits, and how much room it takes."""
    from riparian.app.stream_file.durations import format_duration
    from riparian.topics.vocabulary import canonical

    horizon, lines = format_duration(spec.join.horizon), ["waiting for labels: nothing does"]
    if spec.most_waiting:
        n_bytes = waiting_bytes(spec)
        waits = (
            f"{spec.most_waiting:,} instances a partition, {n_bytes / 1e6:,.0f} MB when full, of which a worker has "
            f"{in_memory(spec, spec.most_waiting, n_bytes) / 1e6:,.0f} in memory and the rest in files of --data-dir"
        )
        lines = [f"waiting for labels: up to {horizon} and {waits}"]
    if (label := spec.label).of is not None and label.ahead is not None:
        what = label.of if label.above is None else f"whether {label.of} is above {label.above:g}"
        whose = "" if label.by is None else f" of the same {label.by}"
        lines.append(f"the label is {what} in the first record{whose} at least {format_duration(label.ahead)} later")
    if label.is_ is not None:
        lines.append(f"each record of {spec.topics.labels} is a label {label.is_}")
    if (given := spec.join.unlabelled) is not None:
        silent = None if given.is_ is None else canonical(given.is_)
        without = "not learned" if silent is None else f"learned as {silent}, until a label corrects it"
        lines.append(f"labels wait until {format_duration(given.after)}; an instance without one by then is {without}")
    if spec.topics.labels is not None:
        lines.append(
            f"labels that wait for instances: up to {spec.join.max_labels:,} a partition, "
            f"{spec.join.max_labels * LONGEST_LABEL / 1e6:,.0f} MB with the longest ids"
        )
    if remembered := joined_bytes(spec):
        lines.append(
            f"learned ids are remembered for {horizon}, so that what comes again is known: up to "
            f"{remembered / 1e6:,.0f} MB a partition"
        )
    return lines


def _round(value: float) -> int:
    """To two digits."""
    return round(float(f"{value:.2g}"))


def _partitions(n: int) -> str:
    return f"{n:,} partition{'' if n == 1 else 's'}"


def _show(spec: "Spec", report: "TopicsReport | None") -> None:
    """Print three tables: topics, features, models."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from riparian.topics.decoding.paths import dotted
    from riparian.topics.names import LABELS
    from riparian.topics.vocabulary import canonical

    def table(title: str, *headings: str) -> Table:
        new = Table(title=title, title_justify="left")
        for heading in headings:
            new.add_column(heading, overflow="fold")
        return new

    def row(to: Table, *cells: str) -> None:
        to.add_row(*(escape(safe(cell)) for cell in cells))

    topics = table(f"{escape(spec.name)}: {spec.task}, {_partitions(spec.partitions)}", "topic", "name")
    if report is not None:
        topics.add_column("at the broker")
    for role, name in spec.topics.model_dump().items():
        if name is None and role != LABELS:  # this stream has none
            continue
        labels = f"later values of {spec.label.of}" if spec.label.of is not None else "none"
        cells = [role, name or (labels if spec.record.y is None else "in the feature records")]
        if report is not None:
            n = report.partitions.get(name)
            cells.append("" if name is None else "missing" if n is None else _partitions(n))
        row(topics, *cells)

    features = table("", "feature", "type", "field", "values")
    mapping = spec.mapping()
    for feature in mapping.features[: mapping.n_columns]:
        declared = spec.features[feature.name]
        values = ""
        if declared.values is not None:
            values = ", ".join(map(canonical, declared.values))
        elif feature.type == "nominal":
            values = f"learned, up to {declared.max_values:,}"
        row(features, feature.name, feature.type, dotted(feature.path), values)
    for name, one in spec.features.items():
        if one.past is not None:
            row(features, name, one.type, "", ", ".join(f"{field} {value}" for field, value in one.written().items()))
    for name, at in zip(spec.keys, mapping.keys, strict=True):
        row(features, name, "key", "@key" if at is None else dotted(mapping.features[at].path), "")

    models = table("", "role", "model", "parameters")
    for role, (name, parameters) in spec.models().items():
        own = {key: value for key, value in parameters.items() if key != "members"}
        row(models, role, name, ", ".join(f"{key}={value}" for key, value in own.items()))
        for member, summed in (parameters.get("members") or {}).items():
            plain = {"model": summed} if isinstance(summed, str) else summed
            rest = ", ".join(f"{key}={value}" for key, value in plain.items() if key != "model")
            row(models, f"· {member}", str(plain.get("model")), rest)

    lines = [*_of_learning(spec), *_of_auto(spec), *_of_foreign(spec)]
    if spec.task == "classification":
        classes = ", ".join(map(canonical, spec.classes or [])) or f"learned, up to {spec.max_classes:,}"
        lines.append(f"classes: {classes}")
    lines += _of_costs(spec)
    if (price := reasons_price.price_of(spec)) is not None and spec.predictions.reasons is not None:
        lines.append(reasons_price.sentence(price, spec.predictions.reasons.of))
    lines += [*_of_waiting(spec), *_of_keys(spec)]
    if report is not None and report.missing and spec.create_topics != "never":
        lines.append(f"missing topics are created by riparian worker: {', '.join(report.missing)}")
    console = Console()
    console.print(topics, features, models)
    for line in lines:
        console.print(safe(line), markup=False, highlight=False, soft_wrap=True)
