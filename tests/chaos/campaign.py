"""A campaign of faults against workers on a real Kafka, under load; at the end, every promise is checked.

    python -m tests.chaos.campaign --faults 200 --seed 1 [--model adaptive-random-forest:n_models=5]

The seed decides on the schedule: kinds of faults, their order, targets and pauses. What exactly a fault hits is up to
the machine: two runs with one seed go the same way from the outside only.
"""

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.record import write
from riparian.app.cli.terminal.parsing import parse_model
from riparian.app.errors import TopicError
from riparian.app.kafka.connection import Connection
from riparian.app.kafka.local_broker.java import kafka_version
from riparian.app.kafka.topics.lag import lag
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import INPUTS
from tests.broker.clients import create_topics
from tests.broker.harness import ROOT, stream_file
from tests.chaos import rekeyed, steered
from tests.chaos.brokers import VERSIONS
from tests.chaos.checks import Verdict, check_partition, check_replicas
from tests.chaos.cluster import POLL_SECONDS, READY, Cluster
from tests.chaos.grown import Growth
from tests.chaos.load import Generator, Load
from tests.chaos.proxy import Network
from tests.chaos.schedule import BROKER, KINDS, Step, schedule
from tests.chaos.unguarded import GUARDS

CATCH_UP_SECONDS = 120.0
# Streams of a campaign; the seed chooses.
STREAMS: tuple[dict[str, Any], ...] = ({"partitions": 2}, {"partitions": 3, "challengers": {}})
# Features over the past of cards, of which a partition keeps fewer than it has.
KEYS: dict[str, Any] = {
    "classes": ["no", "yes"],
    "keys": {"card": {"from": "card", "max": 30, "idle": "20s"}},
    "features": {
        "a": "numeric",
        "b": "numeric",
        "c": "nominal",
        "n": {"count": "card", "half_life": "10s"},
        "mean": {"mean": "b", "by": "card", "half_life": "2s"},
        "times": {"ratio": "a", "to": "mean"},
        "since": {"since": "card"},
        "yes": {"share": "yes", "by": "card", "half_life": "10s", "smooth": 2},
    },
}
# Labels of one class alone, of which some are null and some come after their instance was taken for the other.
LATE: dict[str, Any] = {
    "learning": "partition",
    "join": {"max_wait": "30s", "unlabelled": {"is": "no", "after": "3s"}},
}
# What a record of a card says seconds later is the label.
FORECAST: dict[str, Any] = {"label": {"of": "a", "ahead": "3s", "by": "card", "above": 0.5}}
# What files say besides, one after another, where workers are restarted with changed ones.
FILES: tuple[dict[str, Any], ...] = (
    {"decision": {"costs": {"yes": {"no": 5}}}},
    {"class_weights": {"yes": 3}, "decision": {"class": "yes", "recall": 0.8}},
    {"decision": {"costs": {"no": {"yes": 2}, "yes": {"no": "a"}}}, "predictions": {"coverage": 0.9}},
    {"decision": {"class": "yes", "alert_rate": 0.1}, "max_classes": 50, "seed": 9},
)
ROLL_EVERY = 3  # faults
UNGUARDED_SECONDS = 60.0
WRONG = ("repeated", "out of order", "not what a fold in memory comes to")


class Report(NamedTuple):
    """What a campaign came to.

    counts : faults by kind. n_fenced : how often a worker that wrote was told that another had taken its partition.
    failures : of workers; `verdicts` has those of partitions.
    """

    counts: Counter[str]
    n_fenced: int
    failures: list[str]
    verdicts: list[Verdict]

    @property
    def passed(self) -> bool:
        return not self.failures and not any(verdict.failures for verdict in self.verdicts)

    @property
    def wrong(self) -> bool:
        """Whether records are twice or in another order, which a guard prevents. What a worker that crashes for another
        reason leaves undone is missing alone."""
        return any(sign in failure for verdict in self.verdicts for failure in verdict.failures for sign in WRONG)


def caught_up(spec: Spec, broker: str, ends: Mapping[tuple[str, int], int]) -> bool:
    """Whether the committed offsets, which are those of the manifests and of the copying, stand at the ends of the
    inputs."""
    try:
        found = asyncio.run(lag(spec, Connection(broker)))
    except TopicError:  # the stream's topics have not grown yet
        return False
    committed = {(row.topic, row.partition): row.committed for row in found.rows}
    return all((committed[tp] or 0) >= end for tp, end in ends.items())


class Subject:
    """A stream under load: what is sent to it, and whether what has to come of it has come.

    Parameters
    ----------
    rate, backlog :
        As in `Load`.
    rekey : bool
        Whether features and labels lie in topics as they are.
    grows : bool
        Whether its topics get more partitions.
    fields : mapping
        Of the stream file; a stream with `control` is sent commands.
    changes : bool
        Whether half of these are files that add and drop features.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        fields: Mapping[str, Any],
        rekey: bool,
        changes: bool = False,
        grows: bool = False,
    ) -> None:
        by = next(iter(fields.get("keys", ())), None)
        copied = rekeyed.fields(name, by, labels="label" not in fields) if rekey else {}
        fields = {"partitions": 2, "join": {"max_wait": "30s"}, **fields, **copied}
        self.file, self.spec = stream_file(folder, name, **fields)
        self._rekey, self._folder, self._fields, self._n_files = rekey, folder, fields, 0
        self._features = changes
        self.growth = Growth(self.spec) if grows else None
        self.one_file = True  # by which a fold in memory comes to the same

    def change(self) -> None:
        """Workers that start from here on have another stream file."""
        more = FILES[self._n_files % len(FILES)]
        self._n_files, self.one_file = self._n_files + 1, False
        _, self.spec = stream_file(self._folder, self.spec.name, **self._fields, **more)

    def begin(self, broker: str, seed: int, rate: float, backlog: int) -> None:
        """Create its topics, and return when the backlog stands in them."""
        self._broker = broker
        self.sources = rekeyed.Sources(self.spec) if self._rekey else None
        if self.sources is not None:
            rekeyed.create_sources(self.spec, broker)
        create_topics(self.spec, broker)
        elsewhere = self.sources or self.growth
        place = None if elsewhere is None else elsewhere.place
        self.load = Load(self.spec, broker, seed=seed, rate=rate, backlog=backlog, place=place)
        self.load.start()
        self._made: Sequence[Generator | rekeyed.Copies] = self.load.generators
        self.asked = steered.Commands(self.spec, broker, seed, self._features) if self.spec.control else None
        if self.asked is not None:
            self.asked.start()

    def may_grow(self) -> bool:
        """Whether it has the partitions that its topics have."""
        return self.growth is not None and self.growth.settled(self._broker)

    def grow(self) -> None:
        """Its topics get twice as many partitions."""
        if self.growth is not None:
            self.growth.grow(self._broker)
            self.spec = self.spec.with_partitions(self.growth.n)

    def answered(self) -> bool:
        return self.asked is None or steered.answered(self._broker, self.spec, self.asked)

    def copied(self) -> bool:
        if self.sources is None:
            return True
        return caught_up(self.spec, self._broker, {tp: len(sent) for tp, sent in self.sources.sent.items()})

    def read_copies(self) -> None:
        """What the workers copied is what they were to learn."""
        if self.sources is not None or self.growth is not None:
            self._made = rekeyed.read_copies(self._broker, self.spec)

    def caught_up(self) -> bool:
        if self.growth is not None:  # labels are handed on
            self.read_copies()
        inputs = [(role, topic) for role, topic, _ in self.spec.inputs if role in INPUTS]
        ends = {(topic, p): one.end(role) for p, one in enumerate(self._made) for role, topic in inputs}
        return caught_up(self.spec, self._broker, ends)

    def check(self) -> tuple[list[Verdict], list[str]]:
        """Of each partition, and sentences about what is the stream's."""
        said: list[str] = []
        if self.sources is not None:
            self.read_copies()
            said += rekeyed.differences(self.spec, self.sources, self._made)
        if self.growth is not None:
            self.read_copies()
            said += self.growth.differences(self._made)  # type: ignore[arg-type]
        verdicts = [
            check_partition(self._broker, self.spec, p, one, self.asked, self.one_file)
            for p, one in enumerate(self._made)
        ]
        return verdicts, said + (check_replicas(self._broker, self.spec) if self.spec.shares else [])


def run(
    folder: Path,
    name: str,
    steps: Sequence[Step],
    *,
    seed: int,
    n_slots: int = 4,
    n_workers: int = 2,
    rate: float = 150.0,
    backlog: int = 3000,
    session: float = 6.0,
    patience: float = CATCH_UP_SECONDS,
    say: Callable[[str], None] = print,
    entry: Sequence[str] = ("riparian.app.cli",),
    rekey: bool = False,
    rolling: bool = False,
    changes: bool = False,
    grows: bool = False,
    n_brokers: int = 1,
    kafka: str | None = None,
    lent: str | None = None,
    beside: Sequence[Mapping[str, Any]] = (),
    **fields: Any,
) -> Report:
    """Run the steps under load, let the workers catch up for `patience` seconds, stop them, and check each partition.

    `rate`, `backlog`, `rekey`, `changes`, `fields` : as in `Subject`. `beside` : fields of further streams, which each
    worker runs, too. `rolling` : between faults workers are restarted, one by one, with changed stream files. `grows` :
    twice meanwhile features and labels get twice as many partitions. `n_brokers`, `kafka`, `lent` : as in `Cluster`.
    """
    subjects = [
        Subject(folder, name if i == 0 else f"{name}-{i + 1}", its, rekey, changes, grows)
        for i, its in enumerate([fields, *beside])
    ]
    counts: Counter[str] = Counter()
    began = time.monotonic()

    def tell(line: str) -> None:
        say(f"{time.monotonic() - began:7.1f} s  {line}")

    cluster = Cluster(folder, [one.file for one in subjects], n_slots, tell, entry, session, n_brokers, kafka, lent)

    def wait(done: Callable[[Subject], bool], until: float) -> bool:
        while not (held := all(done(one) for one in subjects)) and time.monotonic() < until:
            cluster.pause(0.5)
        return held

    with ExitStack() as stack:
        network = stack.enter_context(Network())
        stack.callback(cluster.end)
        cluster.brokers.start()
        cluster.connect(network)
        for i, one in enumerate(subjects):
            one.begin(cluster.brokers.bootstrap, seed + i, rate, backlog)
        for slot in range(n_workers):
            cluster.act(Step(0.0, "start", slot, None))
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while not all(worker.output.count(READY) >= len(subjects) for worker in cluster.workers.values()):
            cluster.pause(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the workers are not ready in {CATCH_UP_SECONDS:.0f} s: {cluster.failures}")
        tell(f"{n_workers} workers are ready, {sum(one.load.n_sent for one in subjects)} records waited for them")
        lasting, n_rolls, n_grown = set[int](), 0, 0
        for i, step in enumerate(steps):
            cluster.pause(step.pause)
            is_due = grows and n_grown < 2 and i >= (n_grown + 1) * len(steps) // 3
            if is_due and BROKER not in lasting and all(one.may_grow() for one in subjects):
                n_grown += 1
                tell("the topics get twice as many partitions")
                for one in subjects:
                    one.grow()
            if rolling and step.fault is not None and not lasting and counts.total() > ROLL_EVERY * n_rolls:
                n_rolls += 1
                tell("workers are restarted one by one with changed stream files")
                for one in subjects:
                    one.change()
                cluster.roll(READY, len(subjects))
            if step.action in ("freeze", "refuse", "stall", "broker kill", "broker stop"):
                lasting.add(step.slot)
            elif step.action in ("thaw", "heal", "broker start"):
                lasting.discard(step.slot)
            target = "" if step.slot < 0 else f" slot {step.slot}"
            if step.fault is not None:
                counts[step.fault] += 1
                tell(f"fault {counts.total():3d}: {step.fault}{target}")
            else:
                tell(f"           {step.action}{target}")
            cluster.act(step)
        cluster.settle()
        tell("no more faults")
        deadline = time.monotonic() + patience
        asked = [one.asked for one in subjects if one.asked is not None]
        for (
            commands
        ) in asked:  # they take effect before predictions, so the load goes on until the last one is answered
            commands.finish()
        wait(Subject.answered, deadline)
        for commands in asked:
            tell(f"{len(commands.sent)} commands in {commands.n} records were sent to each partition")
        for one in subjects:
            one.load.finish()
        deadline = time.monotonic() + patience
        wait(Subject.copied, deadline)
        for one in subjects:
            one.read_copies()
        if not wait(Subject.caught_up, deadline):
            cluster.fail(f"the workers did not catch up in {patience:.0f} s", *cluster.workers.values())
        else:
            tell("caught up")
        cluster.stop_all()
        tell("stopped")
        verdicts = []
        for one in subjects:
            found, said = one.check()
            verdicts += found
            for sentence in said:
                cluster.fail(f"{one.spec.name}: {sentence}")
            if one.sources is not None:
                tell(f"{one.sources.n} records of the sources were compared with their copies")
        tell("checked")
    return Report(counts, cluster.n_fenced, cluster.failures, verdicts)


def summary(report: Report) -> str:
    """How many of each fault, and what was found, for the end of a log."""
    counts, n_fenced, failures, verdicts = report
    lines = [f"{n:5d}  {kind}" for kind, n in sorted(counts.items())]
    lines.append(f"{counts.total():5d}  faults")
    lines.append(f"{n_fenced:5d}  times a worker wrote for a partition that another had taken, and was refused")
    lines += [f"FAILED  {failure.splitlines()[0]}" for failure in failures]
    for v in verdicts:
        answers = "".join(f"{n} commands {what}, " for what, n in sorted(v.answers.items()))
        lines.append(
            f"{v.stream}, partition {v.partition}: {v.n_joined} labels trained, {v.n_predictions} predictions, "
            f"{v.n_dead_letters} dead letters, {answers}state {v.digest}"
        )
        lines += [f"  FAILED  {failure}" for failure in v.failures] or ["  nothing lost, nothing twice, all equal"]
    return "\n".join(lines)


def figures(report: Report) -> dict[str, Any]:
    """The same for a file of results."""
    return {
        "faults": report.counts,
        "fenced": report.n_fenced,
        "passed": report.passed,
        "failures": [failure.splitlines()[0] for failure in report.failures],  # without the ends of the workers' logs
        "partitions": [{**verdict._asdict(), "answers": dict(verdict.answers)} for verdict in report.verdicts],
    }


def main() -> int:
    """The command line; exit code 1 where a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, help="of the schedule; default: a fresh one, which is printed")
    parser.add_argument("--folder", type=Path, default=ROOT / ".riparian" / "chaos")
    parser.add_argument("--rate", type=float, default=150.0, help="live instances a second and partition")
    parser.add_argument("--model", type=parse_model, help="the champion, with parameters as in `riparian evaluate`")
    parser.add_argument("--session", type=float, default=6.0, help="session timeout of the workers, in seconds")
    parser.add_argument(
        "--rekey", action="store_true", help="features on 6 partitions and labels on 4, which the workers copy"
    )
    parser.add_argument(
        "--keys", action="store_true", help="as --rekey, by card: features over the past of cards, of which many go"
    )
    parser.add_argument(
        "--late", action="store_true", help='as --keys, with labels of "yes" alone and null ones: silence is "no"'
    )
    parser.add_argument("--forecast", action="store_true", help="as --keys, with later records as the only labels")
    parser.add_argument("--control", action="store_true", help="send commands meanwhile (promote, add, reset, ...)")
    parser.add_argument(
        "--features", action="store_true", help="as --control: half of the commands add and drop features"
    )
    parser.add_argument(
        "--rolling", action="store_true", help="restart workers one by one with changed stream files between faults"
    )
    parser.add_argument("--grow", action="store_true", help="twice as many partitions of the topics, twice")
    parser.add_argument("--partitions", type=int, help="of each stream; default: two or three, by the seed")
    parser.add_argument("--brokers", type=int, default=1, help="3: three replicas, two in sync; leaders are killed")
    parser.add_argument("--kafka", choices=VERSIONS, help="of another version than the tests' brokers")
    parser.add_argument("--own", action="store_true", help="each partition has models of its own")
    parser.add_argument("--streams", type=int, default=1, help="that each worker runs")
    parser.add_argument(
        "--without",
        choices=GUARDS,
        help="switch this guard off: only faults that it guards against, and they must break something",
    )
    options = parser.parse_args()
    options.control |= options.features
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # that the broker is away, twice each 50 ms
    keys = options.keys or options.late or options.forecast
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    folder: Path = options.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-seed-{seed}"
    folder.mkdir(parents=True)
    kinds = [GUARDS[options.without].fault] if options.without else list(KINDS)
    with (folder / "campaign.log").open("w") as log:

        def say(line: str) -> None:
            print(line, flush=True)
            print(line, file=log, flush=True)

        without = f", without the {options.without}" if options.without else ""
        champion = f", champion {options.model[0]}" if options.model else ""
        champion += ", topics as they are" if options.rekey else ", keys" if keys else ""
        champion += ", late labels" if options.late else ""
        champion += ", labels from the stream itself" if options.forecast else ""
        champion += ", under commands" if options.control else ""
        champion += ", features that come and go" if options.features else ""
        champion += ", changed files" if options.rolling else ""
        champion += ", topics that grow" if options.grow else ""
        champion += ", models of each partition" if options.own else ""
        champion += f", {options.streams} streams" if options.streams > 1 else ""
        champion += f", {options.brokers} brokers" if options.brokers > 1 else ""
        champion += f", Kafka {options.kafka}" if options.kafka else ""
        say(f"{options.faults} faults, seed {seed}{champion}{without}, in {folder}")
        streams: list[dict[str, Any]] = [
            {
                **STREAMS[of % len(STREAMS)],
                **({"partitions": options.partitions} if options.partitions else {}),
                **(steered.fields(of) if options.control else {}),
                **({"learning": "partition"} if options.own else {}),
                **(steered.keyed() if options.features and not (options.own or keys) else {}),
                **(KEYS if keys else {}),
                **(LATE if options.late else {}),
                **(FORECAST if options.forecast else {}),
                **({"champion": {"model": options.model[0], **options.model[1]}} if options.model else {}),
            }
            for of in range(seed, seed + options.streams)
        ]
        report = run(
            folder,
            f"chaos-{seed}",
            schedule(seed, options.faults, session=options.session, kinds=kinds),
            seed=seed,
            rate=options.rate,
            session=options.session,
            rekey=options.rekey or keys,
            rolling=options.rolling,
            changes=options.features,
            grows=options.grow,
            n_brokers=options.brokers,
            kafka=options.kafka,
            patience=UNGUARDED_SECONDS if options.without else CATCH_UP_SECONDS,
            say=say,
            entry=("tests.chaos.unguarded", options.without) if options.without else ("riparian.app.cli",),
            beside=streams[1:],
            **streams[0],
        )
        say(summary(report))
        of = "-keys" if options.keys else "-grow" if options.grow else ""
        of = "-late" if options.late else "-forecast" if options.forecast else of
        of += "-own" if keys and options.own else ""
        of = "-unguarded" if options.without else of
        of = "-features" if options.features else of
        of = "-brokers" if options.brokers > 1 else f"-kafka-{options.kafka}" if options.kafka else of
        brokers = {"brokers": options.brokers, "kafka": options.kafka or kafka_version()}
        write(f"campaign-chaos{of}", brokers | figures(report), seed=seed)
        if options.without:
            say("it failed, as it must" if report.wrong else f"FAILED  no record is twice or out of order{without}")
    return int(not (report.wrong if options.without else report.passed))


if __name__ == "__main__":
    sys.exit(main())
