"""How much is run: tiny for a test, the default for a few minutes, full for all sizes."""

from __future__ import annotations

import msgspec


class Sizes(msgspec.Struct, frozen=True):
    rounds: int = 100
    batch: int = 10
    warm: int = 300
    sustained: int = 3_000
    items: int = 1_000
    many_items: int = 10_000
    big_rounds: int = 30
    turns: int = 1_000
    moves: int = 1_000  # rollbacks and forks, to see what one takes on disk
    fresh: int = 11  # processes
    startup: int = 20  # processes
    hooks: int = 20  # processes of each kind
    hook_files: int = 20_000
    agents: int = 8
    agent_commits: int = 200
    store_small: int = 1_000  # checkpoints
    store_large: int | None = None
    peer_turns: int = 250
    peer_reads: int = 30
    peers: bool = True
    files: int = 20_000
    file_rounds: int = 15
    effects: int = 1_000


DEFAULT = Sizes()
FULL = Sizes(store_large=1_000_000, peer_turns=1_000)
TINY = Sizes(
    rounds=2, batch=2, warm=2, sustained=6, items=40, many_items=80, big_rounds=2, turns=20, moves=10,
    fresh=1, startup=1, hooks=1, hook_files=200, agents=2, agent_commits=3,
    store_small=40, store_large=80,
    peer_turns=6, peer_reads=1, peers=False, effects=100, files=60, file_rounds=1,
)  # fmt: skip
