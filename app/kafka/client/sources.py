"""Where the settings of a connection come from: a properties file, the environment, the stream file's `kafka` section.

A value that is, as a whole, `${NAME}` stands for the environment variable NAME; one that begins with `file:` for the
content of that file, without the newline at its end. So no secret has to stand in a file of settings. What a reference
gives is taken as it is. Files are named from the working directory, as librdkafka does.

No error here quotes a value that could be a secret.
"""

import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from riparian.app.errors import BrokerError
from riparian.app.kafka.client.settings import OAUTH, Settings
from riparian.app.references import resolved
from riparian.app.stream_file.sections.kafka import NAMES, PROVIDER, SYNONYMS, nearest

PREFIX = "RIPARIAN_KAFKA_"
CONFIG = "RIPARIAN_KAFKA_CONFIG"
BROKER = "RIPARIAN_BROKER"  # bootstrap.servers, by its older name
FILES = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
PROTOCOLS = ("plaintext", "ssl", "sasl_plaintext", "sasl_ssl")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTH)
ENDPOINT = "ssl.endpoint.identification.algorithm"
PASSWORD = ("sasl.username", "sasl.password")
CLIENT = (
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.token.endpoint.url",
)
TOKENS = (*CLIENT, "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", PROVIDER, "https.ca.location")


class Given(NamedTuple):
    """A value, and where it stands: for a sentence about it. strength : of that place, beside the others."""

    value: str
    where: str
    strength: int = 0


def read(
    file: Path | None,
    environment: Mapping[str, str],
    section: Mapping[str, str] | None = None,
    *,
    file_first: bool = False,
) -> Settings | None:
    """The settings of the stream file, over them those of a properties file and of the environment; None where nothing
    is set.

    Parameters
    ----------
    file : Path, optional
        `name=value` a line; lines that begin with # are comments.
    environment : mapping
        Of which RIPARIAN_KAFKA_SASL_PASSWORD is sasl.password, and so on.
    section : mapping, optional
        The stream file's `kafka`, which has been checked.
    file_first : bool
        Whether the file is stronger than the environment: it was named on the command line.

    Raises
    ------
    BrokerError
        A name that is none, a reference that leads nowhere, a value that cannot be, a contradiction, a file that
        cannot be read. No password is quoted.
    """
    given = _given(file, environment, section, file_first)
    if not given:
        return None
    settings = _made(given)
    _check(settings, given)
    settings._again = lambda: _made(_given(file, environment, section, file_first))
    return settings


def _made(given: Mapping[str, Given]) -> Settings:
    return Settings.model_validate({name: one.value for name, one in given.items()})


def _given(
    file: Path | None, environment: Mapping[str, str], section: Mapping[str, str] | None, file_first: bool
) -> dict[str, Given]:
    """What counts of all places, with what references refer to."""
    layers = [
        {SYNONYMS.get(name, name): Given(value, "the stream file, kafka") for name, value in (section or {}).items()},
        {} if file is None else _of_file(file),
        _of_environment(environment),
    ]
    if file_first:
        layers[1:] = reversed(layers[1:])
    given = {
        name: one._replace(strength=strength) for strength, layer in enumerate(layers) for name, one in layer.items()
    }
    given = {name: _resolved(name, one, environment) for name, one in given.items()}
    given = {name: one for name, one in given.items() if one.value}
    for name, choices, form in (
        ("security.protocol", PROTOCOLS, str.lower),
        ("sasl.mechanism", MECHANISMS, str.upper),
        ("sasl.oauthbearer.method", ("oidc",), str.lower),
        (ENDPOINT, ("https", "none"), str.lower),
    ):
        if name in given:
            value, where, _ = given[name]
            if form(value) not in choices:
                raise BrokerError(f'{where}: expected {name} as one of {", ".join(choices)}, found "{value}".')
            given[name] = given[name]._replace(value=form(value))
    return _without_overruled(given)


def _effective(name: str, given: Mapping[str, Given]) -> tuple[bool, str]:
    """Whether a setting can have an effect, and by which other one that is decided."""
    protocol = given["security.protocol"].value if "security.protocol" in given else "plaintext"
    mechanism = given["sasl.mechanism"].value if "sasl.mechanism" in given else None
    if name == "sasl.mechanism":
        return protocol.startswith("sasl"), "security.protocol"
    if name in PASSWORD or name in TOKENS:
        if not protocol.startswith("sasl"):
            return False, "security.protocol"
        return (mechanism == OAUTH) == (name in TOKENS), "sasl.mechanism"
    if name in (*FILES, "ssl.key.password", ENDPOINT):
        return protocol.endswith("ssl"), "security.protocol"
    return True, name


def _without_overruled(given: dict[str, Given]) -> dict[str, Given]:
    """Without what has no effect as a stronger place has chosen another protocol or mechanism. So whoever names a local
    broker by RIPARIAN_KAFKA_SECURITY_PROTOCOL=plaintext need not take the password out of the stream file."""
    found = {}
    for name, one in given.items():
        has_effect, decided = _effective(name, given)
        if has_effect or decided not in given or given[decided].strength <= one.strength:
            found[name] = one
    return found


def _of_file(file: Path) -> dict[str, Given]:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise BrokerError(
            f"--kafka-config {file} cannot be read ({reason}): name a file of lines such as security.protocol=ssl."
        ) from None
    given: dict[str, Given] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#!":
            continue
        where = f"{file}, line {number}"
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals:
            raise BrokerError(f"{where}: expected name=value, such as security.protocol=ssl, found no equals sign.")
        name = _known(SYNONYMS.get(name, name), name, where, NAMES)
        if name in given:
            raise BrokerError(f"{where}: {name} is given a second time (before: {given[name].where}): remove one.")
        given[name] = Given(value, where)
    return given


def _of_environment(environment: Mapping[str, str]) -> dict[str, Given]:
    given = {}
    names = {PREFIX + name.replace(".", "_").upper(): name for name in (*NAMES, *SYNONYMS)}
    for variable in sorted(environment):
        if variable.startswith(PREFIX) and variable != CONFIG and environment[variable]:
            _known(variable, variable, "the environment", tuple(names))
            name = names[variable]
            given[SYNONYMS.get(name, name)] = Given(environment[variable], variable)
    if environment.get(BROKER):
        given["bootstrap.servers"] = Given(environment[BROKER], BROKER)
    return given


def _known(name: str, written: str, where: str, names: tuple[str, ...]) -> str:
    if name in names:
        return name
    raise BrokerError(f'{where}: expected a setting of the connection, found "{written}": {nearest(name, names)}')


def _resolved(name: str, given: Given, environment: Mapping[str, str]) -> Given:
    """A value with what it refers to in its place."""
    try:
        return given._replace(value=resolved(given.value, environment))
    except ValueError as error:
        raise BrokerError(f"{given.where}: {name} {error}") from None


def _check(settings: Settings, given: Mapping[str, Given]) -> None:
    """BrokerError for settings that contradict each other, and for certificates that cannot be used."""
    for name, found in given.items():
        has_effect, decided = _effective(name, given)
        if not has_effect:
            value = settings.protocol if decided == "security.protocol" else settings.mechanism
            setting = f"{decided}={value}" + ("" if decided in given else " (the default)")
            raise BrokerError(
                f"{found.where}: {name} has no effect with {setting}: {_cure(name, settings)}, or remove {name}."
            )
    if settings.sasl:
        _check_sasl(settings, given)
    one, other = FILES[1:]
    for name, missing in ((one, other), (other, one), ("ssl.key.password", other)):
        if name in given and missing not in given:
            raise BrokerError(
                f"{given[name].where}: {name} needs {missing} beside it: name the PEM file (it may be the same one, "
                "where certificate and key stand together)."
            )
    for name in (*FILES, "https.ca.location"):
        if name in given and not (name.endswith("ca.location") and Path(given[name].value).is_dir()):
            try:
                Path(given[name].value).read_bytes()
            except OSError as error:
                raise BrokerError(
                    f"{given[name].where}: {name} names {given[name].value}, which cannot be read "
                    f"({error.strerror}): correct the path, or let this user read it."
                ) from None
    if settings.tls:
        _check_certificates(settings, given)


def _cure(name: str, settings: Settings) -> str:
    if name in (*FILES, "ssl.key.password", ENDPOINT):
        return f"set security.protocol to {'sasl_ssl' if settings.sasl else 'ssl'}"
    if not settings.sasl:
        return "set security.protocol to sasl_ssl"
    return f"set sasl.mechanism to {OAUTH if name in TOKENS else 'that of the user'}"


def _check_sasl(settings: Settings, given: Mapping[str, Given]) -> None:
    wanted: tuple[str, ...] = ("sasl.mechanism", *PASSWORD)
    if settings.oauth:
        wanted = () if PROVIDER in given else CLIENT
    for name in wanted:
        if name not in given:
            setting = f"sasl.mechanism={OAUTH}" if settings.oauth else f"security.protocol={settings.protocol}"
            other = f", or name a function of your own by {PROVIDER}" if settings.oauth else ""
            raise BrokerError(
                f"{setting} needs {name}, and it is not set: write it into the file of --kafka-config, or set "
                f"{PREFIX}{name.replace('.', '_').upper()}{other}."
            )
    for name in CLIENT:
        if PROVIDER in given and name in given:
            raise BrokerError(
                f"{given[name].where}: {name} has no effect beside {PROVIDER}, which gives the tokens: remove one."
            )
    if settings.oauth_url is not None:
        where = given["sasl.oauthbearer.token.endpoint.url"].where
        try:
            url = urllib.parse.urlsplit(settings.oauth_url)
            usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        except ValueError:
            usable = False
        if not usable or "@" in settings.oauth_url:
            raise BrokerError(
                f"{where}: expected sasl.oauthbearer.token.endpoint.url as https://HOST/PATH, without a password: "
                "the client's own are sasl.oauthbearer.client.id and .secret."
            )
    if settings.oauth_provider is not None and not all(settings.oauth_provider.partition(":")):
        raise BrokerError(f"{given[PROVIDER].where}: expected {PROVIDER} as package.module:function.")
    try:
        _ = settings.extensions
    except ValueError:
        raise BrokerError(
            f"{given['sasl.oauthbearer.extensions'].where}: expected sasl.oauthbearer.extensions as key=value pairs "
            "separated by commas, with keys of letters."
        ) from None


def _check_certificates(settings: Settings, given: Mapping[str, Given]) -> None:
    try:
        settings.model_copy(update={"certificate": None})._read_context()
    except (OSError, ValueError):
        raise BrokerError(
            f"{given[FILES[0]].where}: ssl.ca.location names {settings.ca}, which holds no certificate in PEM form: "
            "give a file with BEGIN CERTIFICATE in it."
        ) from None
    try:
        settings._read_context()
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or "unreadable").replace("_", " ").lower()
        raise BrokerError(
            f"{given[FILES[1]].where}: ssl.certificate.location {settings.certificate} and ssl.key.location "
            f"{settings.key} cannot be used ({reason}): give a certificate and its own key in PEM form, and "
            "ssl.key.password where the key is encrypted."
        ) from None
