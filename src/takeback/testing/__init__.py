"""What is shipped for whoever writes a backend: the contract suite, and rows to try it with. Needs pytest."""

from __future__ import annotations

import pytest

# Before they are imported, so that a promise that is not kept shows both sides.
for _module in ("contract", "handles", "reading", "writing"):
    pytest.register_assert_rewrite(f"takeback.testing.{_module}")
