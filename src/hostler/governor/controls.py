"""The policies by the names that an operator gives them."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.governor.aimd import Aimd
from hostler.governor.overlay import Control
from hostler.governor.served import Served
from hostler.governor.switched import Switched

CONTROLS: Mapping[str, Control] = {"aimd": Switched(Aimd()), "served": Switched(Served())}
