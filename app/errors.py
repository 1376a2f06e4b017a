"""Errors that a person can mend.

RiparianError            one sentence: what was expected, what was found, what to change
├── SpecError            the stream file, or a learner's parameter
├── BrokerError          Kafka is absent, or refuses
├── TopicError           a topic is there, but not as the stream file says
├── DataError            a file to replay or evaluate
└── StateError           the state in the changelog cannot be used

The command line prints the sentence and exits with 2; it never shows a traceback for one of these.
"""


class RiparianError(Exception):
    """Base of all errors that end the program with one sentence and exit code 2."""


class SpecError(RiparianError):
    """The stream file or a learner's parameters are not valid."""


class BrokerError(RiparianError):
    """The broker cannot be reached, started or stopped."""


class TopicError(RiparianError):
    """A topic exists but does not fit the stream file."""


class DataError(RiparianError):
    """A data file cannot be read as the stream file or the options say."""


class StateError(RiparianError):
    """The state found in the changelog cannot be used."""
