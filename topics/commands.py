"""Commands to a running stream, and what its partitions answer: JSON, in every stream."""

from typing import Annotated, Any, Literal

import msgspec

from riparian.topics import records as r
from riparian.topics.records import Count, Name, Partition, Text, Unread, Whole
from riparian.topics.reports import reader

MAX_COMMAND_BYTES = 65_536

PROMOTE, DEMOTE, FREEZE, THAW, RESET = "promote", "demote", "freeze", "thaw", "reset"
ADD, DROP, APPLY, CHECKPOINT = "add", "drop", "apply", "checkpoint"
PAUSE, RESUME = "pause", "resume"
FORGET = "forget"
OF_A_MODEL = (PROMOTE, FREEZE, THAW, RESET, ADD, DROP)  # these name one

APPLIED, REFUSED, PROPOSED = "applied", "refused", "proposed"

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
_Models = Annotated[dict[_Name, dict[str, Any]], msgspec.Meta(max_length=100)]


class Command(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What somebody asks of a stream. Each partition is given it once, and applies each id once.

    id : its own, such as a UUID
    model : of OF_A_MODEL, the name of the model: "champion", or a challenger's
    definition : of ADD, what stands at `challengers.NAME` of a stream file
    champion, challengers, file : of APPLY, what a stream file declares of them, and `Spec.models_digest` of it
    settings : of APPLY, what else of it takes effect while the stream runs (`Spec.running`); None: nothing of that
    features : of APPLY with settings, the features that it names, where these have changed
    keys : of APPLY with features, the keys whose past these are over; None: the same as before, as are these features
    key, hash : of FORGET, which of `keys`, and the hash of the one that is to be forgotten, in hexadecimal
    by, asked : who asked, by their own account, and when, in ms since 1970
    """

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    command: Literal[
        "promote",
        "demote",
        "freeze",
        "thaw",
        "reset",
        "add",
        "drop",
        "apply",
        "checkpoint",
        "pause",
        "resume",
        "forget",
    ]
    by: Annotated[str, msgspec.Meta(max_length=200)] = ""
    asked: Annotated[int, msgspec.Meta(ge=0, le=1 << 52)] = 0
    model: _Name | None = None
    definition: dict[str, Any] | None = None
    champion: dict[str, Any] | None = None
    challengers: _Models | None = None
    file: Annotated[str, msgspec.Meta(min_length=1, max_length=64)] | None = None
    settings: dict[str, Any] | None = None
    features: dict[str, Any] | None = None
    keys: dict[str, Any] | None = None
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)] | None = None
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")] | None = None


class EventRecord(msgspec.Struct, omit_defaults=True):
    """What became of a command in a partition, or of a rule that steers by itself.

    number : of the partition's events, from 0, without gaps
    event : "applied" or "refused"; "proposed" where a rule only proposes
    id, by, asked, model : of the command
    control_offset : its place; None for a rule
    offset, label_offset, index, label_index : of the first instance that is predicted with it in effect, and the next
        label then
    time : the effective time of the features before, ms
    models : role -> learner, from there on
    sentence : what happened, or why nothing did
    """

    stream: Name
    partition: Partition
    number: Count
    event: Name
    command: Name
    offset: Count
    label_offset: Count
    time: Whole
    sentence: str
    models: Annotated[dict[Name, Name], msgspec.Meta(max_length=1024)] = {}
    id: Name | None = None
    control_offset: Count | None = None
    by: Text = ""
    asked: Whole = 0
    model: Name | None = None
    index: Count = 0
    label_index: Count = 0


class WrongCommandError(ValueError):
    """A record that is no command. reason : one of `topics.records.REASONS`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


_encode = msgspec.json.Encoder().encode
_command = msgspec.json.Decoder(Command).decode
read_event = reader(EventRecord)  # an event; ValueError where it is none


def write(record: Command | EventRecord) -> bytes:
    """The bytes of a record."""
    return _encode(record)


def read_command(value: bytes | None) -> Command:
    """A command. WrongCommandError where it is none; nothing else, whatever the bytes are."""
    if value is None:
        raise WrongCommandError(r.TOMBSTONE, "no value")
    if isinstance(value, Unread):
        raise WrongCommandError(r.UNREADABLE_BATCH, value.decode("utf-8", "replace"))
    if not value:
        raise WrongCommandError(r.EMPTY, "a value of no bytes")
    if len(value) > MAX_COMMAND_BYTES:
        raise WrongCommandError(r.TOO_LARGE, f"{len(value)} bytes, more than {MAX_COMMAND_BYTES}")
    try:
        found = _command(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise WrongCommandError(r.WRONG_COMMAND, str(error)) from None
    wanted = {
        "model": found.command in OF_A_MODEL,
        "definition": found.command == ADD,
        **dict.fromkeys(("champion", "challengers", "file"), found.command == APPLY),
        **dict.fromkeys(("key", "hash"), found.command == FORGET),
    }
    for field, is_wanted in wanted.items():
        if (getattr(found, field) is not None) != is_wanted:
            raise WrongCommandError(
                r.WRONG_COMMAND,
                f"{found.command}: expected {'a' if is_wanted else 'no'} field `{field}`",
            )
    if found.settings is not None and found.command != APPLY:
        raise WrongCommandError(r.WRONG_COMMAND, f"{found.command}: expected no field `settings`")
    if found.features is not None and found.settings is None:
        raise WrongCommandError(r.WRONG_COMMAND, f"{found.command}: expected `features` only with `settings`")
    if found.keys is not None and found.features is None:
        raise WrongCommandError(r.WRONG_COMMAND, f"{found.command}: expected `keys` only with `features`")
    return found
