"""The reaper: ends managed runs whose lease has run out, so that no crash leaves a run RUNNING for ever.

Every replica runs one. Candidates are found without locks by the database's clock; each is then judged again
under its own lock, so that of several replicas one acts.
"""

import asyncio

from common.background import start_task
from common.log import get_logger
from common.metrics import Counter
from run_service.doorbell import Doorbell
from run_service.store import RunStore
from run_service.usecases.end_run import expire_run

_BATCH = 100

_log = get_logger(__name__)


async def reap_expired_runs(store: RunStore, doorbell: Doorbell) -> int:
    """End the runs whose lease has run out, up to a batch of them; answer how many this call ended."""
    ended = 0
    for run_id in await store.expired_runs(_BATCH):
        try:
            expired = await expire_run(store, doorbell, run_id)
        except Exception as error:  # noqa: BLE001 - one run that cannot be ended must not keep others alive
            _log.warning("run could not be ended", run_id=run_id, error_type=type(error).__name__)
            continue
        if expired:
            ended += 1
            _log.info("run lease expired", run_id=run_id)
    return ended


class Reaper:
    """Looks every `seconds`, and again at once while there is a whole batch to end."""

    def __init__(
        self, store: RunStore, doorbell: Doorbell, seconds: float = 1.0, expiries: Counter | None = None
    ) -> None:
        self._store = store
        self._doorbell = doorbell
        self._seconds = seconds
        self._expiries = Counter() if expiries is None else expiries
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look, if that was not begun yet. Needs a running event loop."""
        if self._task is None:
            self._task = start_task(self._run(), "run-reaper")

    async def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            ended = 0
            try:
                ended = await reap_expired_runs(self._store, self._doorbell)
            except Exception as error:  # noqa: BLE001 - the store may be away; the next look tries again
                _log.warning("reaper could not look", error_type=type(error).__name__)
            self._expiries.add(by=ended)
            if ended < _BATCH:
                await asyncio.sleep(self._seconds)
