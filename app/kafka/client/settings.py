"""What every client of a cluster is made with: settings under librdkafka's names, checked by
app/kafka/client/sources.py.

Passwords are `SecretStr`: they show in no repr.
"""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr

from riparian.app.errors import BrokerError

if TYPE_CHECKING:
    from riparian.app.kafka.client.tokens import Tokens

OAUTH = "OAUTHBEARER"


class FreshContext(ssl.SSLContext):
    """A TLS context that reads its certificates anew for each connection.

    A client keeps its context for as long as it runs, and connects again whenever a broker was away: certificates that
    were renewed on disk meanwhile are taken then.
    """

    made_by: "Settings"

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self.made_by._read_context().wrap_bio(*args, **kwargs)


class FreshPassword(str):
    """A password that `Connection` reads anew for each connection; as a text, what it was at first."""

    made_by: "Settings"

    def now(self) -> str:
        password = self.made_by.now().password
        return str(self) if password is None else password.get_secret_value()


class Settings(BaseModel):
    """What every client of a cluster is made with; checked by `read`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    servers: str | None = Field(None, alias="bootstrap.servers")
    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = Field("plaintext", alias="security.protocol")
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        "PLAIN", alias="sasl.mechanism"
    )
    username: str | None = Field(None, alias="sasl.username")
    password: SecretStr | None = Field(None, alias="sasl.password")
    oauth_method: Literal["oidc"] | None = Field(None, alias="sasl.oauthbearer.method")
    oauth_id: str | None = Field(None, alias="sasl.oauthbearer.client.id")
    oauth_secret: SecretStr | None = Field(None, alias="sasl.oauthbearer.client.secret")
    oauth_url: str | None = Field(None, alias="sasl.oauthbearer.token.endpoint.url")
    oauth_scope: str | None = Field(None, alias="sasl.oauthbearer.scope")
    oauth_extensions: str | None = Field(None, alias="sasl.oauthbearer.extensions")
    oauth_provider: str | None = Field(None, alias="sasl.oauthbearer.token.provider")
    oauth_ca: Path | None = Field(None, alias="https.ca.location")
    ca: Path | None = Field(None, alias="ssl.ca.location")
    certificate: Path | None = Field(None, alias="ssl.certificate.location")
    key: Path | None = Field(None, alias="ssl.key.location")
    key_password: SecretStr | None = Field(None, alias="ssl.key.password")
    endpoint: Literal["https", "none"] = Field("https", alias="ssl.endpoint.identification.algorithm")
    client_id: str | None = Field(None, alias="client.id")
    rack: str | None = Field(None, alias="client.rack")
    instance_id: str | None = Field(None, alias="group.instance.id")

    _tokens: "Tokens | None" = PrivateAttr(None)
    _again: "Callable[[], Settings] | None" = PrivateAttr(None)

    def now(self) -> "Settings":
        """The settings as files and references have them now, for their secrets; these ones while those cannot be
        read, as in the moment in which a file is replaced."""
        try:
            return self if self._again is None else self._again()
        except BrokerError:
            return self

    def _fresh_password(self) -> FreshPassword:
        assert self.password is not None
        found = FreshPassword(self.password.get_secret_value())
        found.made_by = self
        return found

    def _oauth_secret(self) -> str:
        secret = self.now().oauth_secret or self.oauth_secret
        assert secret is not None
        return secret.get_secret_value()

    @property
    def sasl(self) -> bool:
        return self.protocol.startswith("sasl")

    @property
    def tls(self) -> bool:
        return self.protocol.endswith("ssl")

    @property
    def oauth(self) -> bool:
        return self.sasl and self.mechanism == OAUTH

    @property
    def extensions(self) -> dict[str, str]:
        """SASL extensions, of key=value pairs separated by commas. ValueError where they are none."""
        pairs = [pair.partition("=") for pair in (self.oauth_extensions or "").split(",") if pair.strip()]
        if not all(key.strip().isalpha() and equals for key, equals, _ in pairs):
            raise ValueError("no key=value pairs")
        return {key.strip(): value.strip() for key, _, value in pairs}

    @property
    def tokens(self) -> "Tokens":
        """The tokens of OAUTHBEARER: one object for all clients, which share its token."""
        if self._tokens is None:
            from riparian.app.kafka.client.tokens import Tokens, client_credentials, provider

            if self.oauth_provider is not None:
                fetch = provider(self.oauth_provider)
            else:
                assert self.oauth_url is not None
                assert self.oauth_id is not None
                fetch = client_credentials(
                    self.oauth_url, self.oauth_id, self._oauth_secret, self.oauth_scope, self.oauth_ca
                )
            self._tokens = Tokens(fetch, self.extensions)
        return self._tokens

    def context(self) -> ssl.SSLContext | None:
        """A TLS context for one client; None without TLS."""
        if not self.tls:
            return None
        context = FreshContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.endpoint == "https"
        context.made_by = self
        return context

    def _read_context(self) -> ssl.SSLContext:
        """A TLS context of the certificates as they are on disk. OSError (ssl.SSLError) where they are not usable."""
        folder = self.ca is not None and self.ca.is_dir()
        context = ssl.create_default_context(
            cafile=None if self.ca is None or folder else str(self.ca), capath=str(self.ca) if folder else None
        )
        context.check_hostname = self.endpoint == "https"
        if self.certificate is not None:
            # Without a password given, OpenSSL would ask for one at the terminal.
            key_password = self.now().key_password
            password = key_password.get_secret_value() if key_password is not None else ""
            context.load_cert_chain(self.certificate, self.key, password)
        return context

    def client(self) -> dict[str, Any]:
        """The settings by aiokafka's names, for one client."""
        found: dict[str, Any] = {"security_protocol": self.protocol.upper()}
        if self.tls:
            found["ssl_context"] = self.context()
        if self.oauth:
            found |= {"sasl_mechanism": OAUTH, "sasl_oauth_token_provider": self.tokens}
        elif self.sasl and self.password is not None:
            found |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self._fresh_password(),
            }
        if self.client_id is not None:
            found["client_id"] = self.client_id
        return found

    def credentials(self) -> Any:
        """Faust's credentials; None for plaintext."""
        from faust import SASLCredentials, SSLCredentials
        from faust.auth import OAuthCredentials

        if self.oauth:
            return OAuthCredentials(oauth_cb=self.tokens, ssl_context=self.context())
        if self.sasl and self.password is not None:
            return SASLCredentials(
                username=self.username,
                password=self._fresh_password(),
                ssl_context=self.context(),
                mechanism=self.mechanism,
            )
        return SSLCredentials(self.context()) if self.tls else None
