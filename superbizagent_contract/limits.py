"""Limits of the contract: the largest and smallest values that cross the wire, with their units."""

MAX_INT32 = 2**31 - 1  # counts, bytes and milliseconds: the INT columns of the two tables
MAX_INT64 = 2**63 - 1  # step_id and seq: BIGINT

MAX_QUERY_CHARACTERS = 16_000
MAX_QUERY_BYTES = 65_535  # a TEXT column
MAX_ANSWER_BYTES = 1024 * 1024
MAX_PUBLISHED_RESULT_BYTES = 1024 * 1024
MAX_PUBLISHED_RESULT_LEVELS = 30
MAX_JSON_KEY_BYTES = 65_535  # MySQL refuses longer keys in a JSON column
MIN_JSON_INTEGER = -(2**63)
MAX_JSON_INTEGER = 2**64 - 1  # beyond it MySQL turns integers into doubles

MIN_LEASE_SECONDS = 1
MAX_LEASE_SECONDS = 24 * 60 * 60

MAX_EVENTS_PER_APPEND = 500
MAX_INVOCATIONS_PER_BATCH = 1_000

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1_000
MAX_PAGE_BYTES = 3 * 1024 * 1024  # a client's default limit for one message is 4 MiB

MAX_SCANNED_ROWS = 10_000  # rows that one page of a search, or one summary, looks at

FIRST_YEAR = 2000
LAST_YEAR = 2100
