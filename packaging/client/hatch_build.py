"""Puts the client, the contract room and the generated code into the client's wheel and source archive."""

# ruff: noqa: INP001  # the build back-end runs this file alone; it is in no package

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOMS = {
    "superbizagent_client": "superbizagent_client",
    "superbizagent_contract": "superbizagent_contract",
    "protos/superbizagent": "superbizagent",
}
"""Where each package lies in the repository -> what it is imported as."""


class ClientBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Finds the rooms in the repository, or beside this file where a source archive was unpacked."""

    def initialize(self, _: str, build_data: dict[str, Any]) -> None:
        here = Path(self.root)
        for room, package in ROOMS.items():
            unpacked = here / package
            source = unpacked if unpacked.is_dir() else here.parent.parent / room
            build_data["force_include"][str(source)] = package
