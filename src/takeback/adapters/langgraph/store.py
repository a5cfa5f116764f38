"""LangGraph's `BaseStore` on takeback's memory: what a graph remembers has a history."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, cast

from langgraph.store.base import (
    BaseStore,
    GetOp,
    IndexConfig,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    ensure_embeddings,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from takeback import store as memory
from takeback.adapters.langgraph import nodes
from takeback.adapters.stores import Adapter, Given
from takeback.engine import finding
from takeback.errors import BadRequest

_MINUTE = 60.0
_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("takeback_store_loop", default=None)


class TakebackStore(Adapter, BaseStore):
    """`TakebackStore("agent.db")`, for `graph.compile(store=…)`: `tb.store` as LangGraph knows stores.

    Inside a takeback step (`with thread.step(…)`) what is put is committed with the step, and goes back with
    it. What the node of a graph puts shows at once, and goes back with the graph's thread, if that is kept by
    a `TakebackSaver` on the same store. What is over does not show, whatever `omit_expired` says; nothing
    needs to be swept.
    """

    supports_ttl = True

    def __init__(
        self,
        store: Given = ":memory:",
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        **options: Any,
    ) -> None:
        super().__init__(store, options)
        self.ttl_config = ttl
        self.index_config = index
        self.store = memory.Store(self.tb.sync._ctx)
        """The same items as takeback knows them: `store.store.history(namespace, key)`."""
        self._embeddings = None if index is None else ensure_embeddings(index["embed"])
        if index is not None:
            self._fields = [(path, tokenize_path(path)) for path in index.get("fields") or ["$"]]
            self.store.index(lambda texts: [self._embedded_query(text) for text in texts])

    @classmethod
    def from_conn_string(cls, conn_string: str, **named: Any) -> Self:
        """The same as the constructor; a value, and a context manager that closes it."""
        return cls(conn_string, **named)

    def setup(self) -> None:
        """Nothing is left to do: a store is ready when it is open."""

    # --- what the framework asks for

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Reads as of before the batch; then its writes, all in one transaction or none."""
        asked = list(ops)
        for op in asked:
            validate_op_namespace(op)
        results: list[Result] = [None if isinstance(op, PutOp) else self._read(op) for op in asked]
        puts = {(op.namespace, op.key): op for op in asked if isinstance(op, PutOp)}  # the last of each
        if puts:
            self._write(list(puts.values()))
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same in the store's threads."""
        asked, token = list(ops), _loop.set(asyncio.get_running_loop())
        try:
            return await self.tb.call(lambda _: self.batch(asked))
        finally:
            _loop.reset(token)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened:
            self.tb.sync.close()

    # --- inside

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self.store.get(op.namespace, op.key, refresh=op.refresh_ttl)
            return None if found is None else Item(**_said(found))
        if isinstance(op, SearchOp):
            return cast("Result", self._search(op))
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise BadRequest(f"{type(op).__name__} is no operation of a store")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        found = self.store.search(
            op.namespace_prefix, where=op.filter, query=op.query if self._embeddings else None,
            limit=op.limit, offset=op.offset, refresh=op.refresh_ttl,
        )  # fmt: skip
        return [SearchItem(**_said(item), score=item.score) for item in found]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = [
            labels for labels in self.store.namespaces() if all(_fits(labels, each) for each in conditions)
        ]
        cut = found if op.max_depth is None else sorted({labels[: op.max_depth] for labels in found})
        return cut[op.offset : op.offset + op.limit]

    def _write(self, puts: list[PutOp]) -> None:
        writes = []
        for op in puts:
            if op.value is None:
                writes.append(self.store.removal(op.namespace, op.key))
                continue
            ttl = None if op.ttl is None else op.ttl * _MINUTE
            writes.append(
                self.store.draft(op.namespace, op.key, op.value, ttl=ttl, vectors=self._vectors(op))
            )
        self.store.write([write for write in writes if write is not None], nodes.ahead)

    # --- the index

    def _vectors(self, op: PutOp) -> list[tuple[str, Sequence[float]]]:
        if self._embeddings is None or op.index is False or op.value is None:
            return []
        asked = None if op.index is None else [(path, tokenize_path(path)) for path in op.index]
        texts = list(_texts(op.value, self._fields if asked is None else asked))
        if not texts:
            return []
        vectors = self._embedded([text for _, text in texts])
        return [(path, vector) for (path, _), vector in zip(texts, vectors, strict=True)]

    def _embedded(self, texts: list[str]) -> Sequence[Sequence[float]]:
        assert self._embeddings is not None
        loop = _loop.get()
        if loop is None:
            return self._embeddings.embed_documents(texts)
        return asyncio.run_coroutine_threadsafe(self._embeddings.aembed_documents(texts), loop).result()

    def _embedded_query(self, text: str) -> Sequence[float]:
        assert self._embeddings is not None
        loop = _loop.get()
        if loop is None:
            return self._embeddings.embed_query(text)
        return asyncio.run_coroutine_threadsafe(self._embeddings.aembed_query(text), loop).result()


def _said(item: memory.Item) -> dict[str, Any]:
    return {
        "namespace": item.namespace,
        "key": item.key,
        "value": item.value,
        "created_at": item.created,
        "updated_at": item.updated,
    }


def _fits(labels: tuple[str, ...], condition: MatchCondition) -> bool:
    if condition.match_type == "prefix":
        return finding.fits(labels, condition.path, ())
    return finding.fits(labels, (), condition.path)


def _texts(value: Any, fields: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """(path, text), as LangGraph takes them out of values."""
    for path, tokens in fields:
        found = get_text_at_path(value, tokens)
        for number, text in enumerate(found):
            yield (f"{path}.{number}" if len(found) > 1 else path), text
