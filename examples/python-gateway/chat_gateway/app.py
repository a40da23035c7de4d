"""The parts of the gateway, put together."""

import contextlib
import os
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.routing import Route

from chat_gateway import chat, diagnosis
from chat_gateway.agent import Agent, diagnose
from chat_gateway.executions import Executions
from chat_gateway.problems import EXCEPTION_HANDLERS
from chat_gateway.services import Settings, open_services


def create_app(settings: Settings | None = None, agent: Agent = diagnose) -> Starlette:
    """The gateway; without settings they come from the environment."""
    settings = settings or Settings.from_env(os.environ)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with open_services(settings) as services, Executions(services, agent) as executions:
            app.state.services = services
            app.state.executions = executions
            yield

    return Starlette(
        routes=[
            Route("/api/chat", chat.ask, methods=["POST"]),
            Route("/api/chat/{run_id}/events", chat.resume),
            Route("/api/diagnosis/{session_id}/trace", diagnosis.trace),
            Route("/api/diagnosis/{session_id}/feedback", diagnosis.feedback, methods=["POST"]),
        ],
        lifespan=lifespan,
        exception_handlers=EXCEPTION_HANDLERS,
    )
