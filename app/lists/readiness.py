"""Tell whether the deployment's lists are built, and which versions of them are served (G134)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.lists.serving import DeploymentLists, published


@dataclass(frozen=True, slots=True)
class ListsProbe:
    """The probe of `/readyz` over the lists of this process."""

    served: DeploymentLists
    clock: Callable[[], datetime]

    async def __call__(self) -> str | None:
        """Return why the lists cannot be used, or None."""
        return await self.served.probe()

    def shown(self) -> dict[str, Any]:
        """Return each list with its version and its age in whole seconds; null where it is not built."""
        now, lists = self.clock(), self.served.lists
        built = {
            one.name: {"version": one.version, "age_s": int((now - one.loaded_at).total_seconds())}
            for one in published(lists)
        }
        return {"lists": {name: built.get(name) for name in sorted(built.keys() | lists.missing.keys())}}
