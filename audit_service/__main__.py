"""`python -m audit_service`: serve AuditService until SIGTERM."""

import sys

from audit_service.app import audit_server
from common.server import serve_module

if __name__ == "__main__":
    sys.exit(serve_module("audit_service", audit_server, "AUDIT_LISTEN"))
