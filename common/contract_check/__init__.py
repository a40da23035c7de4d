"""Proves over descriptors that a contract can carry metadata only.

The rules as data are in superbizagent_contract/metadata_only.py.
"""

from common.contract_check.digest import canonical, contract_digest
from common.contract_check.foreign import DescriptorError, foreign_file, missing_imports, services_in
from common.contract_check.rules import OURS, Breach, breaches_of, metadata_only_messages
from common.contract_check.start import ContractBreachError, require_metadata_only
from common.contract_check.walk import contains_itself, files_of, messages_of, reachable

__all__ = [
    "OURS",
    "Breach",
    "ContractBreachError",
    "DescriptorError",
    "breaches_of",
    "canonical",
    "contains_itself",
    "contract_digest",
    "files_of",
    "foreign_file",
    "messages_of",
    "metadata_only_messages",
    "missing_imports",
    "reachable",
    "require_metadata_only",
    "services_in",
]
