"""Names of tools that may be recorded. The setting ALLOWED_TOOLS adds to them."""

UNLISTED_TOOL = "unlisted_tool"
"""Stands in the audit for a tool that is on no list, such as one that a model made up."""

DEFAULT_TOOLS = frozenset({"lookup_knowledge", "query_logs", "query_mysql", UNLISTED_TOOL})
"""The tools of the assistant, and the name that is always allowed."""
