"""`superbizagent contract-check`: the proof that the contracts can carry metadata only, for a reviewer."""

import asyncio
from collections.abc import Iterable, Sequence

from google.protobuf.descriptor import Descriptor, FieldDescriptor, ServiceDescriptor
from google.protobuf.descriptor_pool import Default
from rich.console import Console
from rich.text import Text

from cli.connection import Service, settings_and_access
from cli.errors import DONE, NOT_THERE, USAGE, CommandError
from cli.reflection import Reflected, reflected
from cli.terminal import new_console, plain_table, print_line
from cli.words import counted, safe
from common.address import parse_address
from common.contract_check import (
    OURS,
    Breach,
    breaches_of,
    contract_digest,
    messages_of,
    metadata_only_messages,
)
from superbizagent.audit.v1 import audit_service_pb2
from superbizagent.run.v1 import run_service_pb2
from superbizagent_contract import TEXT_FIELDS
from superbizagent_contract.metadata_only import METADATA_ONLY

_OUR_FILES = (run_service_pb2.DESCRIPTOR, audit_service_pb2.DESCRIPTOR)
_MOST_BREACHES = 50


def contract_check(target: str | None) -> int:
    """Check the contracts of this installation, or those of a running server; the exit code."""
    own = [service for file in _OUR_FILES for service in file.services_by_name.values()]
    if target is None:
        return _report(new_console(), "this installation", own)
    try:
        address = str(parse_address(target))
    except ValueError as error:
        raise CommandError(f"--target {error}", USAGE) from None
    _, access = settings_and_access()

    async def ask() -> Reflected:
        async with Service("server", address, access) as server:
            return await reflected(server)

    found = asyncio.run(ask())
    return _report(new_console(), f"{address}, by reflection", found.services, found.others)


def _report(
    console: Console, where: str, services: Sequence[ServiceDescriptor], others: Sequence[str] = ()
) -> int:
    breaches = [Breach(name, "is served too, and is none of our services") for name in others]
    breaches += breaches_of(services)
    print_line(console, Text(f"contracts of {where}", style="bold"))
    _show_services(console, services)
    _show_rules(console, services)
    _show_digests(console, services)
    _show_breaches(console, breaches)
    return NOT_THERE if breaches else DONE


def _show_services(console: Console, services: Sequence[ServiceDescriptor]) -> None:
    numbers = frozenset({"methods", "messages", "fields", "strings", "texts"})
    table = plain_table("", "methods", "messages", "fields", "strings", "texts", right=numbers)
    strict = metadata_only_messages(services)
    for service in services:
        messages = messages_of(service.methods).values()
        table.add_row(safe(service.full_name), str(len(service.methods)), *_counts(messages))
    table.add_row("of these, metadata only", "", *_counts(strict.values()))
    console.print(table)


def _counts(messages: Iterable[Descriptor]) -> list[str]:
    ours = [message for message in messages if message.full_name.startswith(OURS)]
    fields = [field for message in ours for field in message.fields]
    strings = [field for field in fields if field.type == FieldDescriptor.TYPE_STRING]
    texts = [field for field in strings if field.name in TEXT_FIELDS]
    return [str(len(some)) for some in (ours, fields, strings, texts)]


def _show_rules(console: Console, services: Sequence[ServiceDescriptor]) -> None:
    print_line(console, Text("\nmetadata only: ids, codes, names, numbers and times; no text", style="bold"))
    served = {service.full_name for service in services}
    for name in sorted(METADATA_ONLY):
        if not served.isdisjoint((name, name.rpartition(".")[0])):
            print_line(console, f"  {name}")
    messages = messages_of(method for service in services for method in service.methods)
    held = {field.name for message in messages.values() for field in message.fields}
    if not held.isdisjoint(TEXT_FIELDS):
        print_line(console, Text("\nwhere text is, and why", style="bold"))
        for name, text in TEXT_FIELDS.items():
            print_line(console, f"  {name:<22} {text.reason}")


def _show_digests(console: Console, services: Sequence[ServiceDescriptor]) -> None:
    print_line(console, Text("\ndigest (SHA-256 of the descriptors)", style="bold"))
    for service in services:
        digest = contract_digest([service])
        own = _own_digest(service.full_name)
        note = "" if own == digest else "  not the contract of this installation"
        print_line(console, f"  {digest}  {safe(service.full_name)}{note}")
    if len(services) > 1:
        print_line(console, f"  {contract_digest(services)}  all of it")


def _own_digest(service: str) -> str | None:
    try:
        return contract_digest([Default().FindServiceByName(service)])
    except KeyError:
        return None


def _show_breaches(console: Console, breaches: Sequence[Breach]) -> None:
    if not breaches:
        print_line(console, Text("\nok: nothing but metadata fits in", style="green"))
        return
    print_line(console, Text(f"\n{counted(len(breaches), 'breach', 'breaches')}", style="red"))
    for breach in breaches[:_MOST_BREACHES]:
        print_line(console, f"  {safe(breach.place)} {breach.rule}")
    if len(breaches) > _MOST_BREACHES:
        print_line(console, f"  and {len(breaches) - _MOST_BREACHES} more")
