"""The question of the demo, or another one that can be asked."""

from typing import Final

from cli.errors import USAGE, CommandError
from superbizagent_contract import has_credential_shape, limits

QUESTION: Final = "why are audit writes being refused?"


def checked_question(question: str) -> str:
    """The question, if the services will take it: they would refuse it only after they were started."""
    try:
        size = len(question.encode())
    except UnicodeEncodeError:
        raise CommandError("--question must be UTF-8", USAGE) from None
    if not 0 < len(question) <= limits.MAX_QUERY_CHARACTERS or size > limits.MAX_QUERY_BYTES:
        raise CommandError("--question must be 1 to 16000 characters and at most 65535 bytes of UTF-8", USAGE)
    if has_credential_shape(question):
        raise CommandError("--question must not have the shape of a credential", USAGE)
    return question
