"""The platform's port, held beside it: bound and not listening, so that nobody gets a connection by it. While the platform is
away after a crash no other user's program can listen there, nor a worker of this user, which cannot share ports (seccomp.py)."""

from __future__ import annotations

import socket


class HeldPorts:
    def __init__(self) -> None:
        self._held: dict[tuple[str, int], socket.socket] = {}

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, addresses: list) -> None:
        """These, `[IP address, port]` each, and no others. What cannot be held, as this machine lacks the address or another has
        the port, is left out."""
        wanted = [(str(host), int(port)) for host, port in addresses]
        for address in [address for address in self._held if address not in wanted]:
            self._held.pop(address).close()
        for address in wanted:
            if address not in self._held:
                held = _bound(address)
                if held is not None:
                    self._held[address] = held


def _bound(address: tuple[str, int]) -> socket.socket | None:
    held = None
    try:
        held = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if held.family == socket.AF_INET6:
            held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        held.bind(address)
        return held
    except (OSError, AttributeError, OverflowError):
        if held is not None:
            held.close()
        return None
