"""What the API says to a failure of git that no handler expected."""

from __future__ import annotations

from hostler.sandbox.errors import ApiError
from hostler.sandbox.git import errors

_ANSWERS: tuple[tuple[type[errors.GitError], int, str], ...] = (
    (errors.NoSuchObject, 404, "Not Found"),
    (errors.BadName, 422, "Invalid request.\n\nA ref, sha or path is malformed."),
    (errors.NotFastForward, 422, "Update is not a fast forward"),
    (errors.MergeConflict, 409, "Merge conflict"),
    (errors.RefMoved, 409, "The reference was moved by somebody else. Try again."),
    (errors.GitError, 422, "Git cannot do this in the repository's present state."),
)


def answer_to(error: errors.GitError) -> ApiError:
    """The clean answer; the most special class decides."""
    status, words = next((s, w) for kind, s, w in _ANSWERS if isinstance(error, kind))
    return ApiError(status, words)
