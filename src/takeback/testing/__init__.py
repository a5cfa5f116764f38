"""What is shipped for whoever writes a backend. Needs pytest, and hypothesis for the machine.

`contract` is the suite that every backend passes; `stateful` drives the façade on it beside the plain
model in `model`, with values from `strategies`; `faults` kills processes and cuts the power.
"""

from __future__ import annotations

import pytest

# Before they are imported, so that a promise that is not kept shows both sides.
for _module in ("contract", "handles", "reading", "writing"):
    pytest.register_assert_rewrite(f"takeback.testing.{_module}")
