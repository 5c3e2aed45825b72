"""The server of the explorer answers its own machine, by its own name, with the token; and nobody else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from armagnn.explore.serve import PageServer, serve


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with PageServer("<!doctype html><p>λ") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read(), dict(answer.getheaders())
    connection.close()
    return found


def test_the_link_opens_the_page(server: PageServer) -> None:
    parts = urlsplit(server.url)
    assert parts.hostname == "127.0.0.1"
    assert len(server.token) >= 32
    status, body, headers = ask(server, f"/?{parts.query}")
    assert (status, body.decode()) == (200, "<!doctype html><p>λ")
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert ask(server, f"/?{parts.query}", "HEAD")[:2] == (200, b"")
    assert ask(server, f"/?{parts.query}", Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=x", "/?token=%FF", "/favicon.ico", "//?x=y"])
def test_nothing_is_shown_without_the_token(server: PageServer, path: str) -> None:
    status, body, _ = ask(server, path)
    assert status == 403
    assert b"doctype" not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{}", "127.0.0.1", "127.0.0.1:1", ""])
def test_another_host_name_is_refused(server: PageServer, host: str) -> None:
    """A site of another name could point it to 127.0.0.1, and would then read the page."""
    status, body, _ = ask(server, f"/?token={server.token}", Host=host.format(server.server_port))
    assert status == 421
    assert b"doctype" not in body


def test_there_is_one_page_and_nothing_to_write(server: PageServer) -> None:
    assert ask(server, f"/etc/passwd?token={server.token}")[0] == 404
    assert ask(server, f"/?token={server.token}", "POST")[0] == 501


def test_it_listens_on_the_loopback_interface_only(server: PageServer) -> None:
    assert server.socket.getsockname()[0] == "127.0.0.1"
    with PageServer("") as other:
        assert other.server_port != server.server_port
        assert other.token != server.token


def test_ctrl_c_ends_it() -> None:
    seen = []

    def ready(url: str) -> None:
        seen.append(url)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # before it serves, Ctrl-C is the caller's
        serve("", ready)
    port = urlsplit(seen[0]).port
    with socket.socket() as again:
        again.bind(("127.0.0.1", port or 0))  # the port is free again
