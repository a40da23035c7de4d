"""The audit in SQL: its tables, one writer, one reader."""

from audit_service.store.read import ReadStore
from audit_service.store.record import RecordStore
from audit_service.store.tables import AUDIT_SCHEMA

__all__ = ["AUDIT_SCHEMA", "ReadStore", "RecordStore"]
