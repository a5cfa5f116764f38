"""Typed states: a stored value as an instance of the model it is read with."""

from __future__ import annotations

from typing import Any

import msgspec

from takeback.errors import BadState
from takeback.model.paths import pointer
from takeback.model.records import Checkpoint


def load(model: Any, value: Any, checkpoint: Checkpoint) -> Any:
    """The value as `model` (pydantic, msgspec, dataclass or TypedDict); a misfit names its path."""
    try:
        if hasattr(model, "model_validate"):
            return model.model_validate(value)
        return msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `")
        path = "/" + where.rstrip("`").removeprefix("$").lstrip(".").replace("[", "/").replace(
            "]", ""
        ).replace(".", "/")
        raise _misfit(model, text, path if where else "", checkpoint) from None
    except ValueError as error:
        details = getattr(error, "errors", None)
        if details is None:
            raise
        first = details()[0]
        raise _misfit(model, first["msg"], pointer(tuple(first["loc"])), checkpoint) from None


def _misfit(model: Any, what: str, path: str, checkpoint: Checkpoint) -> BadState:
    return BadState(
        f"the state does not fit {getattr(model, '__name__', model)}: {what}",
        thread=checkpoint.thread,
        checkpoint=checkpoint.version,
        path=path,
        hint="Open the thread without model= to see the state as it is stored",
    )
