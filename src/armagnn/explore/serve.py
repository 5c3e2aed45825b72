"""A page on this machine's own address, for the one who has its link (``armagnn explore``)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hmac import compare_digest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qs, urlsplit

HOST: Final = "127.0.0.1"
HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The page itself says what it may run and load: its own script, and nothing else."""


class PageServer(ThreadingHTTPServer):
    """One page at one address of this machine, which a token opens.

    It listens on the loopback interface and a free port. A request must name that address as its host, so that no other
    site can reach the page through a name of its own, and must carry the token, so that no other user of the machine
    can.

    Example:
        >>> with PageServer("<!doctype html>") as server:
        ...     server.url.startswith("http://127.0.0.1:")
        True
    """

    daemon_threads = True

    def __init__(self, page: str, port: int = 0) -> None:
        self.page, self.token = page.encode(), secrets.token_urlsafe(24)
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the page, with its token."""
        return f"http://{HOST}:{self.server_port}/?token={self.token}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "armagnn", ""
    timeout = 10

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, with_body: bool) -> None:
        status, body = self._page()
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def _page(self) -> tuple[int, bytes]:
        port = self.server.server_port
        if self.headers.get_all("Host") not in ([f"{HOST}:{port}"], [f"localhost:{port}"]):
            return 421, b"This page is at 127.0.0.1 only."
        asked = urlsplit(self.path)
        token = parse_qs(asked.query).get("token", [""])[0]
        if not compare_digest(token.encode(), self.server.token.encode()):
            return 403, b"The link lacks its token: open the one that armagnn explore has printed."
        return (200, self.server.page) if asked.path == "/" else (404, b"There is one page, /.")

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: the address would have the token in it."""


def serve(page: str, ready: Callable[[str], object]) -> None:
    """Serve a page until Ctrl-C; ``ready`` is given the address when it can be opened."""
    with PageServer(page) as server:
        ready(server.url)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
