"""What callers want of the audit: record, list, search, summarize."""

from audit_service.usecases.list_by_run import list_by_run
from audit_service.usecases.record import Commits, record_invocation, record_invocations
from audit_service.usecases.search import search
from audit_service.usecases.summarize import summarize

__all__ = ["Commits", "list_by_run", "record_invocation", "record_invocations", "search", "summarize"]
