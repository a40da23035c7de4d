"""The command line: arguments, help, and what a wrong one is told."""

import argparse
import re
import sys
from typing import NoReturn

from cli.errors import USAGE
from cli.lessons import LESSONS, TOP, Lesson

# What argparse says without repeating a value. Everything else is replaced by a sentence of ours.
_HARMLESS = re.compile(
    r"the following arguments are required: .*|argument [^:]*: (expected .*|not allowed with .*)"
)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Each command stays on one line with what it is for: argparse forgets that commands are indented."""

    def add_argument(self, action: argparse.Action) -> None:
        """Measure the action as it is shown."""
        self._current_indent += self._indent_increment
        super().add_argument(action)
        self._current_indent -= self._indent_increment


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        sys.stdout.write(f"{parser.prog} {version(parser.prog)}\n")
        sys.exit(0)


class Parser(argparse.ArgumentParser):
    """A parser with a lesson for its help and one line for each error."""

    def __init__(self, prog: str, lesson: Lesson) -> None:
        super().__init__(
            prog=prog,
            description=lesson.what,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )
        self._lesson = lesson

    def format_help(self) -> str:
        """The arguments as argparse shows them, then the lesson."""
        lesson = self._lesson
        parts = [super().format_help()]
        if lesson.examples:
            parts.append("examples:\n" + "".join(f"  {example}\n" for example in lesson.examples))
        if lesson.settings:
            parts.append(_settings_help(lesson.settings))
        if lesson.exit_codes:
            parts.append(f"exit codes:\n  {lesson.exit_codes}\n")
        return "\n".join(parts)

    def error(self, message: str) -> NoReturn:
        """One line, without the value that was refused."""
        if _HARMLESS.fullmatch(message) is None:
            found = re.match(r"argument ([^:]*): invalid", message)
            message = f"argument {found[1]} is unknown" if found else "unknown arguments"
        sys.stderr.write(f"{self.prog}: {message}; see {self.prog} --help\n")
        sys.exit(USAGE)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Parse a command line. `command` in the result is the words of the command."""
    parsed, unknown = _build().parse_known_args(arguments)
    if unknown:
        parsed.refuse("unknown arguments")
    return parsed


def _build() -> Parser:
    top = Parser("superbizagent", TOP)
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = _add(commands, "demo")
    demo.add_argument("--question", metavar="TEXT", help="ask something else")

    for name in ("serve", "run-service", "audit-service"):
        service = _add(commands, name)
        service.add_argument("--workers", metavar="N", help="processes on each address; default: WORKERS")

    migrate = _add(commands, "migrate")
    ways = migrate.add_mutually_exclusive_group()
    ways.add_argument("--check", action="store_true", help="only say what would be done")
    ways.add_argument(
        "--take-over",
        action="store_true",
        help="also complete tables of a Java application whose own migrations were not all applied",
    )

    purge = _add(commands, "purge")
    purge.add_argument("--older-than", required=True, metavar="AGE", help="such as 90d; also s, m and h")
    purge.add_argument("--dry-run", action="store_true", help="only count what would go")

    watch = _add(commands, "watch")
    _add_client_options(watch, audit=False)
    trace = _add(commands, "trace")
    _add_client_options(trace, audit=True)

    check = _add(commands, "contract-check")
    check.add_argument(
        "--target",
        metavar="HOST:PORT",
        help="a running server, asked by reflection; default: this installation",
    )

    conformance = _add(commands, "conformance")
    several = "several replicas are joined by commas"
    conformance.add_argument(
        "--run", metavar="HOST:PORT,…", help=f"RunService; {several}; default: RUN_LISTEN"
    )
    conformance.add_argument(
        "--audit", metavar="HOST:PORT,…", help=f"AuditService; {several}; default: AUDIT_LISTEN"
    )

    token = _add(commands, "token")
    new = _add(token.add_subparsers(title="commands", metavar="COMMAND", required=True), "token new")
    new.add_argument(
        "--name", required=True, help="who holds the token; 1 to 64 of A-Z, a-z, 0-9, _, . and -"
    )
    new.add_argument(
        "--role", required=True, action="append", help="gateway, trace or operator; may be repeated"
    )
    return top


def _add(commands: "argparse._SubParsersAction[Parser]", command: str) -> Parser:
    lesson = LESSONS[command]
    # The class is given by hand: argparse would call it with arguments of its own only.
    parser = commands.add_parser(command.rsplit(maxsplit=1)[-1], help=lesson.brief, lesson=lesson)
    parser.set_defaults(command=command, refuse=parser.error)
    return parser


def _add_client_options(parser: Parser, *, audit: bool) -> None:
    parser.add_argument("run_id", metavar="RUN_ID", help="the run, such as run-3f0c…")
    parser.add_argument("--run", metavar="HOST:PORT", help="RunService; default: RUN_LISTEN")
    if audit:
        parser.add_argument("--audit", metavar="HOST:PORT", help="AuditService; default: AUDIT_LISTEN")
    parser.add_argument("--session", metavar="ID", help="show the run only if this session owns it")


def _settings_help(names: tuple[str, ...]) -> str:
    """The settings with what they mean; taken from the settings themselves, which load only for this."""
    import textwrap

    from common.settings import PREFIX, Settings

    others = {
        "TOKEN": "The caller's token, where the service wants one.",
        "TLS_CA": "PEM file of the authorities that the service's certificate must lead to.",
        "TLS_CLIENT_CERT": "PEM file with the caller's certificate, where the service wants one.",
        "TLS_CLIENT_KEY": "PEM file with its key, without a password.",
    }
    lines = ["settings that matter (environment variables):"]
    for name in names:
        field = Settings.model_fields.get(name.lower())
        meaning = others[name] if field is None else str(field.description)
        default = (
            "" if field is None or field.default in (None, frozenset()) else f" Default: {field.default}."
        )
        lines.append(f"  {PREFIX}{name}")
        lines += textwrap.wrap(meaning + default, 94, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(lines) + "\n"
