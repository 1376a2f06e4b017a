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
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from app.cli.parsing import parse_model
from app.kafka.connection import Connection
from app.kafka.lag import lag
from app.stream_file.spec import Spec
from tests.broker.harness import ROOT, create_topics, stream_file
from tests.chaos import rekeyed, steered
from tests.chaos.checks import Verdict, check_partition, check_replicas
from tests.chaos.cluster import POLL_SECONDS, Cluster
from tests.chaos.load import Generator, Load
from tests.chaos.proxy import Network
from tests.chaos.schedule import KINDS, Step, schedule
from tests.chaos.unguarded import GUARDS
from topics.names import INPUTS

CATCH_UP_SECONDS = 120.0
# Streams of a campaign; the seed chooses.
STREAMS: tuple[dict[str, Any], ...] = ({"partitions": 2}, {"partitions": 3, "challengers": {}})
UNGUARDED_SECONDS = 60.0
READY = "Worker ready"


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


def caught_up(spec: Spec, broker: str, ends: dict[tuple[str, int], int]) -> bool:
    """Whether the committed offsets, which are those of the manifests and of the copying, stand at the ends of the
    inputs."""
    committed = {(row.topic, row.partition): row.committed for row in asyncio.run(lag(spec, Connection(broker))).rows}
    return all((committed[tp] or 0) >= end for tp, end in ends.items())


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
    entry: Sequence[str] = ("app.cli",),
    rekey: bool = False,
    **fields: Any,
) -> Report:
    """Run the steps under load, let the workers catch up for `patience` seconds, stop them, and check each partition.

    `rate`, `backlog` : as in `Load`. `rekey` : whether features and labels lie in topics as they are. `fields` : of the
    stream file; one with `control` is sent commands.
    """
    fields = {"partitions": 2, "join": {"max_wait": "30s"}, **fields, **(rekeyed.fields(name) if rekey else {})}
    stream, spec = stream_file(folder, name, **fields)
    counts: Counter[str] = Counter()
    began = time.monotonic()

    def tell(line: str) -> None:
        say(f"{time.monotonic() - began:7.1f} s  {line}")

    cluster = Cluster(folder, stream, n_slots, tell, entry, session)
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        stack.callback(cluster.end)
        cluster.broker.start()
        cluster.connect(network)
        broker = cluster.broker.bootstrap
        sources = rekeyed.Sources(spec) if rekey else None
        if rekey:
            rekeyed.create_sources(spec, broker)
        create_topics(spec, broker)
        place = None if sources is None else sources.place
        load = Load(spec, broker, seed=seed, rate=rate, backlog=backlog, place=place)
        load.start()
        asked = steered.Commands(spec, broker, seed) if spec.control else None
        if asked is not None:
            asked.start()
        for slot in range(n_workers):
            cluster.act(Step(0.0, "start", slot, None))
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while not all(READY in worker.output for worker in cluster.workers.values()):
            cluster.pause(POLL_SECONDS)
            if time.monotonic() > deadline:
                raise TimeoutError(f"the workers are not ready in {CATCH_UP_SECONDS:.0f} s: {cluster.failures}")
        tell(f"{n_workers} workers are ready, {load.n_sent} records waited for them")
        for step in steps:
            cluster.pause(step.pause)
            target = "" if step.slot < 0 else f" slot {step.slot}"
            if step.fault is not None:
                counts[step.fault] += 1
                tell(f"fault {counts.total():3d}: {step.fault}{target}")
            else:
                tell(f"           {step.action}{target}")
            cluster.act(step)
        tell("no more faults")
        deadline = time.monotonic() + patience
        if asked is not None:  # they take effect before predictions, so the load goes on until the last one is answered
            asked.finish()
            while not steered.answered(broker, spec, asked) and time.monotonic() < deadline:
                cluster.pause(0.5)
            tell(f"{len(asked.sent)} commands in {asked.n} records were sent to each partition")
        load.finish()
        made: Sequence[Generator | rekeyed.Copies] = load.generators
        deadline = time.monotonic() + patience
        if sources is not None:
            copied = {tp: len(sent) for tp, sent in sources.sent.items()}
            while not caught_up(spec, broker, copied) and time.monotonic() < deadline:
                cluster.pause(0.5)
            tell("copied")
            made = rekeyed.read_copies(broker, spec)
        inputs = [(role, topic) for role, topic, _ in spec.inputs if role in INPUTS]
        ends = {(topic, p): one.end(role) for p, one in enumerate(made) for role, topic in inputs}
        while not caught_up(spec, broker, ends) and time.monotonic() < deadline:
            cluster.pause(0.5)
        if not caught_up(spec, broker, ends):
            cluster.fail(f"the workers did not catch up in {patience:.0f} s", *cluster.workers.values())
        else:
            tell("caught up")
        cluster.stop_all()
        tell("stopped")
        if sources is not None:
            for sentence in rekeyed.differences(sources, made := rekeyed.read_copies(broker, spec)):
                cluster.fail(sentence)
            tell(f"{sources.n} records of the sources were compared with their copies")
        verdicts = [check_partition(broker, spec, p, one, asked) for p, one in enumerate(made)]
        for sentence in check_replicas(broker, spec) if spec.shares else ():
            cluster.fail(sentence)
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
            f"partition {v.partition}: {v.n_joined} labels trained, {v.n_predictions} predictions, "
            f"{v.n_dead_letters} dead letters, {answers}state {v.digest}"
        )
        lines += [f"  FAILED  {failure}" for failure in v.failures] or ["  nothing lost, nothing twice, all equal"]
    return "\n".join(lines)


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
    parser.add_argument("--control", action="store_true", help="send commands meanwhile (promote, add, reset, ...)")
    parser.add_argument("--own", action="store_true", help="each partition has models of its own")
    parser.add_argument(
        "--without",
        choices=GUARDS,
        help="switch this guard off: only faults that it guards against, and they must break something",
    )
    options = parser.parse_args()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # that the broker is away, twice each 50 ms
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
        champion += ", topics as they are" if options.rekey else ""
        champion += ", under commands" if options.control else ""
        champion += ", models of each partition" if options.own else ""
        say(f"{options.faults} faults, seed {seed}{champion}{without}, in {folder}")
        report = run(
            folder,
            f"chaos-{seed}",
            schedule(seed, options.faults, session=options.session, kinds=kinds),
            seed=seed,
            rate=options.rate,
            session=options.session,
            rekey=options.rekey,
            patience=UNGUARDED_SECONDS if options.without else CATCH_UP_SECONDS,
            say=say,
            entry=("tests.chaos.unguarded", options.without) if options.without else ("app.cli",),
            **STREAMS[seed % len(STREAMS)],
            **(steered.fields(seed) if options.control else {}),
            **({"learning": "partition"} if options.own else {}),
            **({"champion": {"model": options.model[0], **options.model[1]}} if options.model else {}),
        )
        say(summary(report))
        if options.without:
            say(f"FAILED  nothing was found{without}" if report.passed else "it failed, as it must")
    return int(report.passed == bool(options.without))


if __name__ == "__main__":
    sys.exit(main())
