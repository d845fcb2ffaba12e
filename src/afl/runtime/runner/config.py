"""What a runner service is told."""

from __future__ import annotations

import socket
from dataclasses import KW_ONLY, dataclass, field

from afl.runtime.worker import LEASE_MS
from afl.runtime.worker_numbers import extend_interval_of, require_sound, require_sound_lock

_USUAL_EXTEND_MS = 20000


@dataclass
class RunnerConfig:
    """Raises ConfigurationError for numbers with which a runner could not work."""

    server_group: str = "default"
    service_name: str = "afl-runner"
    #: By default the name of this machine.
    server_name: str = ""
    #: Patterns of facet names to handle; none: all that its tools serve.
    topics: list[str] = field(default_factory=list)
    task_list: str = "default"
    #: How often to look for work even if nobody announces any.
    poll_interval_ms: int = 2000
    heartbeat_interval_ms: int = 10000
    lock_duration_ms: int = 60000
    #: Where it is left as it is, shorter locks are extended more often.
    lock_extend_interval_ms: int = _USUAL_EXTEND_MS
    max_concurrent: int = 5
    #: How long a stop may take; what has not ended by then is given back.
    shutdown_timeout_ms: int = 30000
    #: The first port to try for `/health` and `/status`; 0: any free one.
    http_port: int = 8080
    http_max_port_attempts: int = 20
    _: KW_ONLY
    http_host: str = "127.0.0.1"
    lease_ms: int = LEASE_MS
    #: Threads for handlers that block; None: `max_concurrent`, at most 64.
    threads: int | None = None
    #: How often to look for steps that wait although their task is over.
    step_poll_interval_ms: int = 60000

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()
        if self.lock_extend_interval_ms == _USUAL_EXTEND_MS:
            often = extend_interval_of(self.lock_duration_ms)
            self.lock_extend_interval_ms = min(often, _USUAL_EXTEND_MS)
        require_sound(self)
        require_sound_lock(self.lock_duration_ms, self.lock_extend_interval_ms)

    @property
    def drain_ms(self) -> int:
        return self.shutdown_timeout_ms
