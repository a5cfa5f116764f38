"""A browser's storage state as a resource: the JSON file of cookies and local storage that Playwright writes.

The file is kept by origin, so that a change in one of them shows as that. It is put back as a whole, in one
step; a file that is no storage state is refused, and one that is not as it was captured is kept.
"""

from __future__ import annotations

import json
import os
from typing import Any

from takeback.errors import BadState
from takeback.model.manifest import edit, nodes, read
from takeback.model.manifest.nodes import Entry
from takeback.model.manifest.read import Difference
from takeback.model.tree.nodes import Getter, Writer
from takeback.workspace.resource import Kept

_COOKIES = b"cookies"


class StorageState:
    """`StorageState("state.json")`: what `context.storage_state(path=…)` wrote, and `new_context` reads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)

    def capture(self, base: bytes | None, store: Writer) -> Kept:
        """See `Resource`; a file that is not there is a state without anything in it."""
        if base is not None:
            store.get(base)
        changes: dict[bytes, Entry | None] = {}
        for name, value in self._parts().items():
            payload = nodes.blob(json.dumps(value, sort_keys=True, ensure_ascii=False).encode())
            changes[name] = Entry(name, nodes.FILE, 0o600, len(payload) - 2, store.put(payload))
        tree = edit.edited(store.put(nodes.leaf_node([])), changes, store)
        return Kept(edit.make_root(tree, [], [], store), "named")

    def diff(self, before: bytes, after: bytes, source: Getter) -> list[Difference]:
        """See `Resource`; the paths are `cookies` and the origins."""
        return read.differing(read.root_of(before, source).tree, read.root_of(after, source).tree, source)

    def restore(self, before: bytes, after: bytes, source: Getter) -> dict[bytes, str]:
        """See `Resource`."""
        now, was, goal = self._parts(), _stored(before, source), _stored(after, source)
        if now == goal:
            return {}
        if now != was:
            return {_COOKIES: "was changed meanwhile"}
        origins = [{"origin": _origin(name), "localStorage": goal[name]} for name in sorted(goal)]
        state = {"cookies": goal.get(_COOKIES, []), "origins": [o for o in origins if o["origin"]]}
        beside = self.path + ".takeback"
        with open(beside, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            json.dump(state, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)
        return {}

    def _parts(self) -> dict[bytes, Any]:
        """Cookies, and each origin's local storage, by name."""
        try:
            with open(self.path, encoding="utf-8") as file:
                state = json.load(file)
            found: dict[bytes, Any] = {
                _name(each["origin"]): each["localStorage"] for each in state["origins"]
            }
            return found | {_COOKIES: state["cookies"]}
        except FileNotFoundError:
            return {_COOKIES: []}
        except (ValueError, LookupError, TypeError) as error:
            raise BadState(
                f"{self.path} is no storage state: {error}", hint="context.storage_state(path=…) writes one"
            ) from None


def _stored(root: bytes, source: Getter) -> dict[bytes, Any]:
    found = read.entries(read.root_of(root, source).tree, source)
    return {entry.name: json.loads(read.contents(entry, source)) for entry in found}


def _name(origin: str) -> bytes:
    """An origin as a name: "https://a.example" has slashes, which no name has."""
    return origin.replace("%", "%25").replace("/", "%2F").encode()


def _origin(name: bytes) -> str:
    return "" if name == _COOKIES else name.decode().replace("%2F", "/").replace("%25", "%")
