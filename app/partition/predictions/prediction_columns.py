"""What the prediction records of an outcome say, as columns for a codec."""

from collections.abc import Mapping
from typing import Any

from riparian.app.partition.outcome import Outcome
from riparian.app.partition.predictions.reasons import named
from riparian.app.stream_file.spec import Spec
from riparian.topics.names import CHAMPION, FEATURES, INPUTS, LABELS, place_field
from riparian.topics.places import index_of, offset_of
from riparian.topics.prediction_columns import PredictionColumns
from riparian.topics.vocabulary import Vocabulary


def columns_of(
    spec: Spec, classes: Vocabulary | None, bits: Mapping[str, int], outcome: Outcome, start: int
) -> list[PredictionColumns]:
    """The columns of the predictions, for each lineup of models. classes : that the models know. bits : of the index in
    places, by role of an input log."""
    places: dict[str, Any] = {role: found[start:] for role, found in outcome.next_offsets.items()}
    places[FEATURES] = outcome.offsets[start:]
    indexed = INPUTS if any(bits.values()) else ()  # else places are offsets
    offsets = {role: offset_of(found, bits[role]) for role, found in places.items()} if indexed else places
    further = {place_field(role, "index"): index_of(places[role], bits[role]) for role in indexed}
    further |= {place_field(role): found for role, found in offsets.items() if role not in INPUTS}
    made = None
    if spec.predictions.features and outcome.made is not None:
        names = [name for name, one in spec.features.items() if one.past is not None]
        rows = outcome.made.tolist()
        made = [{name: value for name, value in zip(names, row, strict=True) if value == value} for row in rows]
    found = []
    ends = [one.start for one in outcome.lineups[1:]]
    for lineup, stop in zip(outcome.lineups, [*ends, len(outcome.ids)], strict=True):
        at = slice(max(lineup.start, start), max(stop, start))
        part = slice(at.start - start, at.stop - start)
        roles = [role for role in lineup.roles if role != CHAMPION] if spec.predictions.challengers else []
        told = (CHAMPION, *roles)
        columns = PredictionColumns(
            ids=outcome.ids[at],
            p=outcome.p[CHAMPION][at],
            classes=classes,
            model=lineup.model,
            offsets=offsets[FEATURES][part],
            label_offsets=offsets[LABELS][part],
            probabilities=spec.predictions.probabilities,
            challengers={role: outcome.p[role][at] for role in roles} or None,
            further={name: column[part] for name, column in further.items()} or None,
            regions=None if outcome.regions is None else outcome.regions[at],
            reasons=None if outcome.reasons is None else named(outcome.reasons[at], list(spec.features)),
            decided={role: outcome.decided[role][at, 0] for role in told if role in outcome.decided},
            features=None if made is None else made[at],
        )
        found.append(columns)
    return found
