"""A small chat gateway: questions in over HTTP, a run's events out over SSE, and pages that explain a run."""

from chat_gateway.app import create_app
from chat_gateway.services import Settings

__all__ = ["Settings", "create_app"]
