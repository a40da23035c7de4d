"""Migration by comparing: what a service needs, what is there, and the difference carried out."""

from common.database.migration.run import MigrationProblemError, Report, check, migrate
from common.database.migration.schema import Schema, require

__all__ = ["MigrationProblemError", "Report", "Schema", "check", "migrate", "require"]
