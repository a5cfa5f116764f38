"""What the demo's agent can do to the world: a hotel, a bank and a post office that live in this process."""

from __future__ import annotations

from typing import Any

import takeback

BOOKS: list[str] = []
"""What really happened, in the words of the three: the demo asks them at the end."""


def cancel(hotel: str, result: dict[str, Any]) -> None:
    BOOKS.append(f"hotel        cancelled {result['booking']} at {hotel}")


@takeback.tool(
    undo=cancel,
    target="{hotel}",
    describe="booking at {hotel}, {nights} nights",
    version="demo",
    owner="hotel",
)
def book_hotel(hotel: str, nights: int) -> dict[str, Any]:
    """A hotel that takes every booking, and every cancellation."""
    BOOKS.append(f"hotel        took a booking of {nights} nights at {hotel}")
    return {"booking": "H-4711"}


def refund(to: str, cents: int) -> None:
    BOOKS.append(f"bank         took €{cents / 100:,.2f} back from {to}")


@takeback.tool(
    undo=refund,
    target="{to}",
    describe="{cents:money:EUR} to {to}",
    version="demo",
    owner="bank",
    cost="cents",
)
def pay(to: str, cents: int) -> dict[str, Any]:
    """A bank that would pay once for one key; this one never fails."""
    BOOKS.append(f"bank         paid €{cents / 100:,.2f} to {to} (key {takeback.effect_key()[:9]}…)")
    return {"payment": "P-1"}


@takeback.tool(describe="e-mail to {to}", version="demo", owner="post office")
def send_mail(to: str, subject: str) -> None:
    """Mail has no undo, and says nothing of one: it is irreversible."""
    BOOKS.append(f"post office  delivered {subject!r} to {to}")
