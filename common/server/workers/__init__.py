"""Several processes that serve the same addresses (WORKERS): one supervisor, which serves nothing itself."""

from common.server.workers.supervisor import supervise

__all__ = ["supervise"]
