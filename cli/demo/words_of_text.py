"""Words of a text, brought to a common form, so that `refused`, `refuses` and `refusal` meet."""

import re

_WORD = re.compile(r"[^\W_]\w*")
_ENDINGS = ("ingly", "ations", "ation", "ings", "ing", "als", "al", "ed", "es")
_SHORTEST_STEM = 4
_REASON_PREFIX = "error_reason_"

_COMMON = frozenset(
    re.findall(
        r"\w+",
        """
    a about after all also am an and any are as at be been before being but by can did do does done for
    from get had happen happens has have how i if in into is it its just last let long make many may me
    more most much must my no not now of off on one only or our out over please should so some such take
    tell than that the their them then there these they this those to too up us was way we were what
    when where which while who whom whose why will with would you your
    """,
    )
)


def words(text: str) -> list[str]:
    """All words of a text in their common form; names of code count whole and by their parts."""
    found: list[str] = []
    for word in _WORD.findall(text):
        found.append(_common_form(word))
        if "_" in word:
            found += [_common_form(part) for part in word.split("_") if part]
    return found


def telling_words(text: str) -> list[str]:
    """The words of a question that tell what it is about, each once."""
    found = (word for word in _WORD.findall(text) if word.lower() not in _COMMON)
    return list(dict.fromkeys(_common_form(word) for word in found))


def _common_form(word: str) -> str:
    word = word.lower().removeprefix(_REASON_PREFIX)
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            word = word.removesuffix(ending)
            break
    else:
        word = word.removesuffix("s") if len(word) >= _SHORTEST_STEM else word
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word
