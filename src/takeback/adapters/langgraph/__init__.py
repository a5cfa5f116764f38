"""takeback for LangGraph: a checkpointer whose threads can be taken back, and a store whose items can."""

from __future__ import annotations

try:
    import langgraph.checkpoint.base as _installed
except ImportError as error:
    from takeback.errors import MissingExtra

    raise MissingExtra(
        "takeback.adapters.langgraph needs LangGraph", hint="pip install 'takeback[langgraph]'"
    ) from error
else:
    del _installed

from takeback.adapters.langgraph.moving import Moved, bring_in, give_back
from takeback.adapters.langgraph.saver import TakebackSaver
from takeback.adapters.langgraph.store import TakebackStore
from takeback.adapters.langgraph.tools import effectful

__all__ = ["Moved", "TakebackSaver", "TakebackStore", "bring_in", "effectful", "give_back"]
