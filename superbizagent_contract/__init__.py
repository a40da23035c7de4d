"""The grammar of the contracts in plain Python: patterns, credential shapes, limits and default tools.

Declared once, here; it depends on nothing, so that services, clients and tests can all stand on it.
"""

from superbizagent_contract import kinds, limits
from superbizagent_contract.credentials import CREDENTIAL_RULE, has_credential_shape
from superbizagent_contract.fields import STRING_FIELDS
from superbizagent_contract.kinds import Kind
from superbizagent_contract.metadata_only import TEXT_FIELDS
from superbizagent_contract.published_json import JsonRuleError, PublishedJson, parse_published_json
from superbizagent_contract.tools import DEFAULT_TOOLS, UNLISTED_TOOL

__all__ = [
    "CREDENTIAL_RULE",
    "DEFAULT_TOOLS",
    "STRING_FIELDS",
    "TEXT_FIELDS",
    "UNLISTED_TOOL",
    "JsonRuleError",
    "Kind",
    "PublishedJson",
    "has_credential_shape",
    "kinds",
    "limits",
    "parse_published_json",
]
