"""Seals: a thread's head, signed or not, to be kept where nobody who can write the store can write."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from takeback.engine.context import Context, Tip
from takeback.errors import BadSeal, MissingExtra
from takeback.model.ids import shown
from takeback.model.records import ThreadInfo, instant

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_FORMAT = "takeback seal 1"


class Seal(msgspec.Struct, frozen=True):
    """That a thread had this head at this time."""

    store: str
    tenant: str
    thread: str
    uid: bytes
    version: int
    digest: bytes
    time_us: int
    signature: bytes | None = None

    def as_dict(self) -> dict[str, Any]:
        said = {
            "format": _FORMAT,
            "store": self.store,
            "tenant": self.tenant,
            "thread": self.thread,
            "uid": shown(self.uid),
            "version": self.version,
            "digest": shown(self.digest),
            "time": instant(self.time_us).isoformat(),
        }
        return said if self.signature is None else said | {"signature": shown(self.signature)}

    def dumps(self) -> str:
        """The seal as text: JSON, one member a line."""
        return json.dumps(self.as_dict(), indent=1) + "\n"

    @property
    def message(self) -> bytes:
        """The bytes that a signature covers."""
        said = {name: value for name, value in self.as_dict().items() if name != "signature"}
        return json.dumps(said, sort_keys=True, separators=(",", ":")).encode()


def make(ctx: Context, tip: Tip, private_key: bytes | None) -> Seal:
    """Seal the head; with an Ed25519 key, so that readers can check it without being able to make one."""
    store = ctx.storage.info().uid
    seal = Seal(
        store, ctx.tenant, tip.info.name, tip.info.uid, tip.head.version, tip.head.digest, ctx.clock()
    )
    if private_key is None:
        return seal
    return msgspec.structs.replace(seal, signature=_private(private_key).sign(seal.message))


def loads(text: str) -> Seal:
    """A seal from its text."""
    try:
        said = json.loads(text)
        if said.pop("format") != _FORMAT:
            raise ValueError("another format")
        signature = said.pop("signature", None)
        return Seal(
            store=said["store"],
            tenant=said["tenant"],
            thread=said["thread"],
            uid=_bytes(said["uid"], 16),
            version=int(said["version"]),
            digest=_bytes(said["digest"], 32),
            time_us=_micros(said["time"]),
            signature=None if signature is None else _bytes(signature, 64),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSeal(f"this is no seal: {error}", hint="`takeback seal` writes one") from None


def check(seal: Seal, info: ThreadInfo, public_key: bytes | None) -> None:
    """Refuse a seal of another thread and, given a key, one that its owner did not sign."""
    if seal.uid != info.uid:
        raise BadSeal(
            f"the seal is of thread {seal.thread!r} with another uid",
            thread=info.name,
            hint="Give this thread's",
        )
    if public_key is None:
        return
    if seal.signature is None:
        raise BadSeal("the seal is not signed", thread=info.name)
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public_key).verify(seal.signature, seal.message)
    except InvalidSignature:
        raise BadSeal("the seal's signature is wrong: it was changed, or another key signed it") from None


def sign_with(private_key: bytes, message: bytes) -> bytes:
    """An Ed25519 signature."""
    return _private(private_key).sign(message)


def signed_by(public_key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the key's owner signed this message."""
    _needed()
    from cryptography.exceptions import InvalidSignature

    try:
        _public(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def new_key() -> tuple[bytes, bytes]:
    """A fresh Ed25519 pair: (private, public), 32 bytes each."""
    _needed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    return private.private_bytes_raw(), private.public_key().public_bytes_raw()


def _private(raw: bytes) -> Ed25519PrivateKey:
    _needed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        return Ed25519PrivateKey.from_private_bytes(raw)
    except ValueError as error:
        raise BadSeal(f"this is no Ed25519 private key: {error}") from None


def _public(raw: bytes) -> Ed25519PublicKey:
    _needed()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        return Ed25519PublicKey.from_public_bytes(raw)
    except ValueError as error:
        raise BadSeal(f"this is no Ed25519 public key: {error}") from None


def _needed() -> None:
    try:
        import cryptography  # noqa: F401 (only whether it is there)
    except ImportError:
        raise MissingExtra(
            "signed seals need the cryptography package", hint="pip install 'takeback[crypto]'"
        ) from None


def _bytes(text: str, length: int) -> bytes:
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != length:
        raise ValueError(f"{length} bytes expected, not {len(raw)}")
    return raw


def _micros(text: str) -> int:
    from takeback.model.canonical import micros

    return micros(datetime.fromisoformat(text))
