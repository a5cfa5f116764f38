"""takeback for LangGraph: `TakebackSaver`, a checkpointer whose threads can be taken back."""

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

from takeback.adapters.langgraph.saver import TakebackSaver

__all__ = ["TakebackSaver"]
