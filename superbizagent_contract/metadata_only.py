"""What the promise "metadata only" means for the contracts, as data: a reviewer reads it here.

The checker of the descriptors (common/contract_check) holds every message to it, in `make lint`, when a
service starts, and in the command `superbizagent contract-check`.
"""

from typing import NamedTuple

METADATA_ONLY = frozenset(
    {
        "superbizagent.audit.v1.AuditService",
        "superbizagent.run.v1.RunService.AppendRunEvents",
        "superbizagent.run.v1.RunService.ListRunEvents",
        "superbizagent.run.v1.RunService.StreamRunEvents",
    }
)
"""Services, and methods of services, whose messages hold no text at all, however deep."""


class TextField(NamedTuple):
    """One of the fields that hold text: why it must, and the only messages that have it."""

    reason: str
    messages: frozenset[str]


def _text(reason: str, *messages: str) -> TextField:
    return TextField(reason, frozenset(f"superbizagent.run.v1.{message}" for message in messages))


TEXT_FIELDS: dict[str, TextField] = {
    "query": _text(
        "the user's question: a run without it cannot be shown to its user again", "CreateRunRequest", "Run"
    ),
    "answer": _text("the released answer: it is what the run was for", "FinishRunRequest", "Run"),
    "published_result_json": _text(
        "the released result in a structured form, as the release policy let it out",
        "FinishRunRequest",
        "Run",
    ),
}
"""The only fields that hold text. They exist in RunService alone, outside of every event."""

BODY_WORDS = frozenset(
    """
    answer answers arg args argument arguments attachment attachments blob body bodies buffer chunk
    chunks code comment comments completion content contents context data delta description detail
    details document documents dump embedding evidence exception explanation html input inputs
    instruction instructions json line lines log logs markdown memory message messages note notes output
    outputs param parameter parameters params payload payloads preview prompt prompts query queries
    question quote raw reason reasoning reply request requests response responses result results row
    rows snippet sql stack stacktrace statement summary text texts thinking thought title trace
    traceback transcript value values xml yaml
    """.split()  # noqa: SIM905  # as a list they would fill a page
)
"""Words that name what a body is kept in. A field of a metadata-only message has none in its name, ..."""

MEASURES = frozenset({"bytes", "count", "ms"})
"""... unless it is a number whose name ends with what it measures, such as request_bytes, ..."""

HARMLESS_NAMES: dict[str, str] = {
    "cut_outputs": "a number: how many outputs were cut",
    "error_code": "a code of the grammar, never a text",
    "error_reason": "a value of the enum ErrorReason",
    "evidence_status": "a code of the grammar: whether there is evidence, not what it says",
    "step_code": "a code of the grammar: which kind of step it was",
    "superbizagent.audit.v1.BatchRecordToolInvocationsResponse.results": (
        "the list of what became of each item of a batch: an id, or a reason"
    ),
}
"""... or it is one of these names, or full names, each with its reason. Its type is checked all the same."""

REPEATED_NUMBERS: dict[str, str] = {
    "superbizagent.run.v1.AppendRunEventsResponse.seqs": "the seq of each event, given by the service"
}
"""A list of numbers can spell a text. These cannot: the service counts them."""
