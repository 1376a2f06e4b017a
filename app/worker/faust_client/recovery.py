"""What happens after a rebalance: Faust's recovery service, with the reading of changelogs in the engine's hands.

Faust's own recovery waits for a changelog's last *record*, so a transaction marker at its end (outputs.py) would keep
it waiting for ever; it applies 8,000 records/s, in the event loop; it polls for an event that can be missed for 5 s;
and its memory store forgets standbys when they are promoted. It is used for what it knows: which partitions are
standbys, and when an assignment is complete.
"""

from typing import Any

import faust
from faust.tables import TableManager, recovery
from faust.types import TP
from mode import Service


class Tables(TableManager):  # type: ignore[misc]
    """Faust's tables, without the second that it gives an application to add some at its start: ours are there."""

    async def on_start(self) -> None:
        await self._update_channels()
        await self.recovery.start()


class Recovery(recovery.Recovery):  # type: ignore[misc]
    """Resumes the streams after every rebalance; `Consumer.perform_seek` has the engine load the state."""

    @Service.task  # type: ignore[untyped-decorator]
    async def _restart_recovery(self) -> None:
        while not self.should_stop:
            if await self.wait_for_stopped(self.signal_recovery_start):
                return
            self.signal_recovery_start.clear()
            await self._resume(self._generation_id)

    async def _resume(self, generation: int) -> None:
        app: Any = self.app
        await app.on_rebalance_complete.send()
        if app.consumer_generation_id != generation:
            return
        app.flow_control.resume()
        app.consumer.resume_flow()
        await app._fetcher.maybe_start()
        await app.consumer.perform_seek()
        if app.consumer_generation_id != generation:
            return
        self.completed.set()
        self.tables.on_actives_ready()
        self.tables.on_standbys_ready()
        app.on_rebalance_end()
        self.log.info("Worker ready")

    def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """No buffers to flush."""


def install(app: faust.App) -> None:
    """Give `app` this recovery service, before it starts."""
    app.tables._recovery = Recovery(app, app.tables, beacon=app.tables.beacon, loop=app.tables.loop)
