"""The gRPC server that both services stand in: what they hand over, and how a process runs them."""

# ruff: noqa: E402 - the first statement must come before anything imports grpc
from common.quiet_core import quiet_grpc_core

quiet_grpc_core()

from common.server.access import RoleTable, any_request
from common.server.call import Context
from common.server.command import serve, serve_module
from common.server.process import run_process, run_until_signal
from common.server.server import GrpcServer
from common.server.service import ServedService

__all__ = [
    "Context",
    "GrpcServer",
    "RoleTable",
    "ServedService",
    "any_request",
    "run_process",
    "run_until_signal",
    "serve",
    "serve_module",
]
