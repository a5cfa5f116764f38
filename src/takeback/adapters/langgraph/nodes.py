"""Where a call stands that a graph's node makes: the thread, and the version that it comes before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.runnables.config import var_child_runnable_config

from takeback.adapters.langgraph.saver import TakebackSaver
from takeback.engine.items import Ahead, Name
from takeback.errors import StoreUnavailable

if TYPE_CHECKING:
    from takeback.engine.context import Context

_PATIENCE = 10.0  # seconds for the task's own checkpoint to be stored, with durability="async"


def saver_of(own: Mapping[str, Any]) -> TakebackSaver | None:
    """The saver of the graph whose node runs here, by what stands under `configurable`."""
    saver = own.get("__pregel_checkpointer")
    return saver if isinstance(saver, TakebackSaver) else None


def wait_until_stored(saver: TakebackSaver, thread_id: str, own: Mapping[str, Any]) -> None:
    """Wait until the checkpoint that the task started from is there: what it does comes after that."""
    if own.get("__pregel_durability") == "exit":
        return  # nothing is stored before the end, and the graph says so by its choice
    until = time.monotonic() + _PATIENCE
    for namespace, checkpoint in (own.get("checkpoint_map") or {}).items():
        while not saver._graphs.has(thread_id, namespace, checkpoint):
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"the checkpoint {checkpoint} that the task started from is not stored yet",
                    thread=thread_id,
                    hint="Nothing was done; run the graph again",
                )
            time.sleep(0.002)


def ahead(ctx: Context, names: list[Name]) -> Ahead | None:
    """The version that items written here come with: the next of the graph's thread. None outside of a
    node, and where the graph keeps its threads in another store."""
    config = var_child_runnable_config.get() or {}
    own = config.get("configurable") or {}
    saver = saver_of(own)
    if saver is None or "__pregel_task_id" not in own or own.get("thread_id") is None:
        return None
    thread_id = str(own["thread_id"])
    if saver.repo._ctx.tenant != ctx.tenant:
        return None
    wait_until_stored(saver, thread_id, own)
    kept, tip = saver._graphs.tip(thread_id), ctx.tip(thread_id)
    if tip is None or tip.info.uid != kept.info.uid:
        return None
    said = config.get("metadata") or {}
    node, reason, actor = (_text(said.get(name)) for name in ("langgraph_node", "reason", "actor"))
    place = Ahead(tip.info.uid, tip.head.line, tip.head.version + 1, ctx.clock(), node, reason, actor)
    for checkpoint in (own.get("checkpoint_map") or {}).values():
        saver._graphs.wrote_ahead(thread_id, checkpoint, place, names)
    return place


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
