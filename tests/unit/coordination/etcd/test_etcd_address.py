"""Addresses of etcd."""

import pytest

from quiver.coordination.etcd.address import Credentials, Endpoint, parse_etcd_address


def test_hosts_name_and_credentials() -> None:
    address = parse_etcd_address("etcd://user:p%40ss@a,b:1234,[::1]:99/orders")
    assert address.endpoints == (Endpoint("a", 2379), Endpoint("b", 1234), Endpoint("::1", 99))
    assert str(address.endpoints[2]) == "[::1]:99"
    assert address.credentials == Credentials("user", "p@ss")
    assert (address.prefix, address.tls) == ("quiver/orders/", None)
    assert parse_etcd_address("etcds://a/x").tls is not None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("http://a/x", "must be an address such as"),
        ("etcd://a", "no name"),
        ("etcd://a/x/y", "no name"),
        ("etcd://a,/x", "empty host"),
        ("etcd://a:99999/x", "not a number"),
        ("etcd://a/x?ca=f", "write etcds"),
        ("etcds://a/x?what=f", "not known"),
        ("etcds://a/x?key=f", "without a cert"),
        ("etcds://user:secret@a/x?ca=/nowhere", "cannot be used"),
    ],
)
def test_what_is_wrong_is_said_without_the_password(value: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as found:
        parse_etcd_address(value)
    assert "secret" not in str(found.value)
