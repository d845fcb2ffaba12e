"""Where a MongoDB is, in single fields, for programs that keep user and password apart."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote

from afl.db.mongo.address import DEFAULT_DATABASE, DEFAULT_URL
from afl.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class MongoDBConfig:
    """For `MongoStore.from_config`.

    Without `username` the URL is taken as it is. With it the URL must name no user;
    `auth_source`, the database where that user was made, counts unless the URL has one.
    """

    # Not shown: it may have a password in it.
    url: str = field(default=DEFAULT_URL, repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    auth_source: str = "admin"
    database: str = DEFAULT_DATABASE

    def connection_string(self) -> str:
        """The URL with user and password, whatever characters they have. Raises
        ConfigurationError if there are two users."""
        if not self.username:
            return self.url
        scheme, _, rest = self.url.partition("://")
        place, _, query = rest.partition("?")
        if "@" in place:
            raise ConfigurationError(
                "the MongoDB URL names a user, and so does `username`; leave one of them out"
            )
        hosts, _, database = place.partition("/")
        return f"{scheme}://{self._user()}@{hosts}/{database}?{self._options(query)}"

    def _user(self) -> str:
        user = quote(self.username, safe="")
        return f"{user}:{quote(self.password, safe='')}" if self.password else user

    def _options(self, query: str) -> str:
        if "authsource=" in query.lower():
            return query
        source = f"authSource={quote(self.auth_source, safe='')}"
        return f"{query}&{source}" if query else source
