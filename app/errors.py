"""Errors that a person can fix.

RiparianError            one sentence: what was expected, what was found, what to change
├── SpecError            the stream file, or a learner's parameter
├── BrokerError          Kafka is absent, or refuses
│   └── AccessError      Kafka is there, and does not let us in: waiting does not help
├── RegistryError        the schema registry refuses, or a schema does not fit
│   └── UnreachableError the registry does not answer: waiting may help
├── TopicError           a topic is there, but not as the stream file says
├── DataError            a file to replay or evaluate
└── StateError           the state in the changelog cannot be used

The command line prints the sentence and exits with 2; it never shows a traceback for one of these.
"""

from typing import Self


class RiparianError(Exception):
    """Base of all errors that end the program with one sentence and exit code 2.

    Control characters are written as escapes, since a sentence may quote a file.
    """

    def __str__(self) -> str:
        return "\n".join(map(safe, super().__str__().split("\n")))

    def within(self, place: str) -> Self:
        """A copy of an error whose sentence begins with the name of a file, as far as it does not yet."""
        if not str(self).startswith(f"{place}: "):
            self.args = (f"{place}: {super().__str__()}",)
        return self


class SpecError(RiparianError):
    """The stream file or a learner's parameters are not valid."""

    def __str__(self) -> str:
        text = super().__str__().replace("\n", "\\n")
        return text if len(text) <= 1200 else f"{text[:800]}…{text[-300:]}"  # it ends with what to change


class BrokerError(RiparianError):
    """The broker cannot be reached, started or stopped."""


class AccessError(BrokerError):
    """The broker answers, but refuses the client with these settings of the connection."""


class RegistryError(RiparianError):
    """The schema registry cannot be asked, or what it holds does not fit the stream file."""


class UnreachableError(RegistryError):
    """The schema registry does not answer, or only that it cannot."""


class TopicError(RiparianError):
    """A topic exists but does not fit the stream file."""


class DataError(RiparianError):
    """A data file cannot be read, or does not fit the stream file or the options."""


class StateError(RiparianError):
    """The state found in the changelog cannot be used."""


def safe(data: bytes | str) -> str:
    """Text for a terminal: what would be a command to it, or not be seen, as escapes."""
    text = data if isinstance(data, str) else data.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text
    )  # fmt: skip
