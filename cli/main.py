"""The `superbizagent` command. Commands import what they need when they run, so that --help comes at once."""

import argparse
import io
import os
import sys
from collections.abc import Callable

from cli.errors import INTERRUPTED, READER_GONE, USAGE, CommandError
from cli.parser import parse
from common.quiet_core import quiet_grpc_core


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code. Whatever goes wrong is one line on stderr."""
    quiet_grpc_core()
    _never_fail_to_print()
    try:
        try:
            return _main(arguments)
        finally:
            # Here and not at exit, where a reader who is gone would be an error of Python's, in its words.
            sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes stdout once more at exit; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


def _main(arguments: list[str] | None) -> int:
    parsed = parse(arguments)
    try:
        return _carry_out(parsed)
    except CommandError as error:
        return _say(parsed, error.line, error.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001  # the last line of defence: a traceback would show values
        return _unexpected(parsed, error)


def _never_fail_to_print() -> None:
    """A terminal that lacks a character shows a question mark instead."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _carry_out(parsed: argparse.Namespace) -> int:
    from common.quiet_libraries import quiet_libraries

    quiet_libraries()
    return _COMMANDS[parsed.command](parsed)


def _unexpected(parsed: argparse.Namespace, error: Exception) -> int:
    from common.errors import StartError

    if isinstance(error, StartError):
        return _say(parsed, str(error), USAGE)
    return _say(parsed, f"failed unexpectedly ({type(error).__name__})", 1)


def _say(parsed: argparse.Namespace, line: str, exit_code: int) -> int:
    from cli.words import safe

    line = safe(line)
    sys.stderr.write(f"superbizagent {parsed.command}: {line}\n")
    return exit_code


def _demo(parsed: argparse.Namespace) -> int:
    from cli.demo import run_demo

    return run_demo(parsed.question)


def _serve(parsed: argparse.Namespace) -> int:
    from cli.serve import serve_both

    return serve_both(parsed.workers)


def _run_service(parsed: argparse.Namespace) -> int:
    from cli.serve import serve_runs

    return serve_runs(parsed.workers)


def _audit_service(parsed: argparse.Namespace) -> int:
    from cli.serve import serve_audits

    return serve_audits(parsed.workers)


def _migrate(parsed: argparse.Namespace) -> int:
    from cli.migrate import migrate

    return migrate(check_only=parsed.check, take_over=parsed.take_over)


def _purge(parsed: argparse.Namespace) -> int:
    from cli.purge import purge

    return purge(parsed.older_than, dry_run=parsed.dry_run)


def _watch(parsed: argparse.Namespace) -> int:
    from cli.watch import watch

    return watch(parsed.run_id, run=parsed.run, session=parsed.session)


def _trace(parsed: argparse.Namespace) -> int:
    from cli.trace import trace

    return trace(parsed.run_id, run=parsed.run, audit=parsed.audit, session=parsed.session)


def _contract_check(parsed: argparse.Namespace) -> int:
    from cli.contract_check import contract_check

    return contract_check(parsed.target)


def _conformance(parsed: argparse.Namespace) -> int:
    from cli.conformance.command import conformance

    return conformance(run=parsed.run, audit=parsed.audit)


def _token_new(parsed: argparse.Namespace) -> int:
    from cli.new_token import new_token

    return new_token(parsed.name, parsed.role)


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "demo": _demo,
    "serve": _serve,
    "run-service": _run_service,
    "audit-service": _audit_service,
    "migrate": _migrate,
    "purge": _purge,
    "watch": _watch,
    "trace": _trace,
    "contract-check": _contract_check,
    "conformance": _conformance,
    "token new": _token_new,
}

if __name__ == "__main__":
    sys.exit(main())
