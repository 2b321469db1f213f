"""Calls to etcd: to one endpoint as long as it responds, then to the next; with a token that is renewed."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

import msgspec

from quiver.coordination.etcd.address import Endpoint, EtcdAddress
from quiver.coordination.etcd.connection import HttpConnection, NoHttp, Response
from quiver.coordination.etcd.members import Members
from quiver.coordination.etcd.messages import Answer, Header, Refusal, TokenAnswer, decode, encode
from quiver.model.errors import CoordinationUnavailable, InvalidSetting
from quiver.system.backoff import Backoff
from quiver.system.network import Network, TcpNetwork

logger = logging.getLogger(__name__)

_CALL_SECONDS = 5.0
_ATTEMPT_SECONDS = 2.5
_DIAL_SECONDS = 1.0
_IDLE_CONNECTIONS = 8

_UNAVAILABLE = {1, 4, 8, 13, 14}
"""Codes of gRPC that say nothing about the call: cancelled, deadline, exhausted, internal, unavailable."""
_UNAUTHENTICATED = 16
_NOT_ENABLED = 9
_OLD_TOKEN = ("invalid auth token", "revision of auth store is old")
_TOO_LARGE = "larger than max"
FAILED = (OSError, EOFError, NoHttp, msgspec.MsgspecError)


class HasHeader(Protocol):
    @property
    def header(self) -> Header: ...


T = TypeVar("T", bound=HasHeader)


class Refused(Exception):
    """etcd has understood the call, and says no."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.code, self.message = refusal.code, refusal.message

    def __str__(self) -> str:
        return self.message


class EtcdClient:
    def __init__(self, address: EtcdAddress, network: Network | None = None) -> None:
        self.address = address
        self.call_seconds = _CALL_SECONDS
        """For a call with all its attempts."""
        self._network = network or TcpNetwork()
        self.members = Members(address.endpoints)
        self._idle: list[HttpConnection] = []
        self._token = ""
        self._cluster_id = 0
        self._authenticating = asyncio.Lock()
        self.problem: str | None = None
        """Why the last attempt failed; None since one succeeded."""

    @property
    def endpoint(self) -> Endpoint:
        return self.members.current

    async def use(self) -> Endpoint:
        """The endpoint for another attempt."""
        await self.members.look_up()
        return self.endpoint

    def leave(self, endpoint: Endpoint, problem: object) -> None:
        """The next endpoint is used from now on, unless that has happened already."""
        self.problem = f"{endpoint}: {str(problem) or type(problem).__name__}"
        if endpoint == self.endpoint:
            self.members.leave()
            self._close_idle()

    def close(self) -> None:
        self._close_idle()

    async def call(self, path: str, request: dict[str, Any], kind: type[T], *, may_repeat: bool = True) -> T:
        """The response of any endpoint. Raises Refused, InvalidSetting, and CoordinationUnavailable: then a call that
        may not be repeated may have happened."""
        body, backoff = encode(request), Backoff(0.05, 0.5)
        try:
            async with asyncio.timeout(self.call_seconds):
                while True:
                    endpoint, is_sent = await self.use(), False
                    try:
                        connection = await self._connection(endpoint)
                        is_sent = True
                        return await self._exchange(connection, path, body, kind)
                    except FAILED as error:
                        self.leave(endpoint, error)
                    except Refused as refused:
                        if refused.code not in _UNAVAILABLE or _TOO_LARGE in refused.message:
                            raise
                        self.leave(endpoint, refused)
                    if is_sent and not may_repeat:
                        raise self.unavailable()
                    if self.members.is_first:
                        await asyncio.sleep(backoff.next_seconds())
        except TimeoutError:
            self.problem = self.problem or f"{self.endpoint}: no response within {self.call_seconds:.0f} s"
            raise self.unavailable() from None

    async def _exchange(self, connection: HttpConnection, path: str, body: bytes, kind: type[T]) -> T:
        """With another token if etcd does not know this one any more: then nothing has happened."""
        token = self._token
        try:
            return self._checked(await self._post(connection, path, body, token), kind)
        except Refused as refused:
            if not self.is_of_token(refused):
                raise
        await self._authenticate(token)
        connection = await self._connection(connection.endpoint)
        return self._checked(await self._post(connection, path, body, self._token), kind)

    async def check(self, endpoint: Endpoint, key: str) -> None:
        """Raises what is in FAILED, or Refused, if a member cannot read what its quorum has."""
        connection = await self._connection(endpoint)
        await self._exchange(connection, "/v3/kv/range", encode({"key": key, "count_only": True}), Answer)

    async def read_revision(self, key: str) -> int:
        return (await self.call("/v3/kv/range", {"key": key, "count_only": True}, Answer)).header.revision

    async def stream(self, endpoint: Endpoint, path: str, request: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        """The lines of a response that does not end, on a connection of its own. Raises what is in FAILED."""
        if self.address.credentials is not None and not self._token:
            await self._authenticate("")
        connection = await HttpConnection.open(endpoint, self.address, self._network, _DIAL_SECONDS)
        try:
            async with aclosing(connection.stream(path, encode(request), self._token)) as lines:
                async for line in lines:
                    yield line
        finally:
            connection.close()

    def unavailable(self) -> CoordinationUnavailable:
        return CoordinationUnavailable(problem=self.problem or "no endpoint responds")

    async def renew_token(self) -> None:
        if self.address.credentials is not None:
            await self._authenticate(self._token)

    async def _post(self, connection: HttpConnection, path: str, body: bytes, token: str) -> Response:
        try:
            async with asyncio.timeout(_ATTEMPT_SECONDS):
                response = await connection.post(path, body, token)
        except BaseException:
            connection.close()
            raise
        if connection.endpoint == self.endpoint and len(self._idle) < _IDLE_CONNECTIONS:
            self._idle.append(connection)
        else:
            connection.close()
        return response

    async def _connection(self, endpoint: Endpoint) -> HttpConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open and connection.endpoint == endpoint:
                return connection
            connection.close()
        return await HttpConnection.open(endpoint, self.address, self._network, _DIAL_SECONDS)

    def _checked(self, response: Response, kind: type[T]) -> T:
        if response.status != 200:
            raise Refused(_refusal(response))
        answer = decode(response.body, kind)
        self.check_cluster(answer.header)
        self.problem = None
        return answer

    def check_cluster(self, header: Header) -> None:
        """Raises NoHttp for an endpoint of another cluster than the first one that responded."""
        if not self._cluster_id:
            self._cluster_id = header.cluster_id
        elif header.cluster_id and header.cluster_id != self._cluster_id:
            raise NoHttp(f"it belongs to the etcd cluster {header.cluster_id:x}, not to {self._cluster_id:x}")

    def is_of_token(self, refused: Refused) -> bool:
        """Whether another token may help. Raises InvalidSetting where only a user and a password do."""
        if self.address.credentials is None:
            if refused.code == _UNAUTHENTICATED or "user name is empty" in refused.message:
                raise InvalidSetting(
                    setting="etcd", problem="etcd wants a user and a password: etcd://user:password@..."
                )
            return False
        return refused.code == _UNAUTHENTICATED or any(
            text in refused.message for text in (*_OLD_TOKEN, "user name is empty")
        )

    async def _authenticate(self, old_token: str) -> None:
        """Gets a token, unless another call has got one meanwhile."""
        credentials = self.address.credentials
        assert credentials is not None
        async with self._authenticating:
            if self._token != old_token:
                return
            request = {"name": credentials.user, "password": credentials.password}
            endpoint = await self.use()
            connection = await HttpConnection.open(endpoint, self.address, self._network, _DIAL_SECONDS)
            try:
                response = await self._post(connection, "/v3/auth/authenticate", encode(request), "")
                self._token = self._checked(response, TokenAnswer).token
            except Refused as refused:
                if refused.code in _UNAVAILABLE:
                    raise ConnectionResetError(refused.message) from refused
                if refused.code != _NOT_ENABLED:
                    raise InvalidSetting(setting="etcd", problem=f"{endpoint}: {refused}") from refused

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()


def _refusal(response: Response) -> Refusal:
    try:
        refusal = decode(response.body, Refusal)
    except msgspec.MsgspecError:
        refusal = Refusal()
    if refusal.code:
        return refusal
    text = response.body[:200].decode("utf-8", "replace").strip()
    raise NoHttp(f"HTTP status {response.status}: {text}")
