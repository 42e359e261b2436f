"""GitHub's error responses, as exceptions that handlers raise."""

from __future__ import annotations

from typing import Any

from hostler.sandbox.git import errors

DOCS_URL = "https://docs.github.com/rest"


class ApiError(Exception):
    """An error answer: status, message, and the list `errors` where GitHub gives one."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = headers or {}

    def payload(self) -> dict[str, Any]:
        """Return the JSON body."""
        body: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            body["errors"] = self.errors
        return {**body, "documentation_url": DOCS_URL, "status": str(self.status)}


def not_found() -> ApiError:
    """Return a 404: absent, or hidden from the caller."""
    return ApiError(404, "Not Found")


def gone(message: str) -> ApiError:
    """Return a 410: deleted for good."""
    return ApiError(410, message)


def forbidden(message: str = "Must have admin rights to Repository.") -> ApiError:
    """Return a 403: the caller is known and lacks the permission."""
    return ApiError(403, message)


def unauthorized(message: str = "Requires authentication") -> ApiError:
    """Return a 401: the request needs valid credentials."""
    return ApiError(401, message)


def bad_request(message: str = "Problems parsing JSON") -> ApiError:
    """Return a 400: the request could not be read."""
    return ApiError(400, message)


def conflict(message: str) -> ApiError:
    """Return a 409: the present state does not allow the request."""
    return ApiError(409, message)


def invalid(resource: str, field: str, code: str, message: str = "") -> ApiError:
    """Return a 422 for one field; `code` is missing_field, invalid, already_exists or custom."""
    detail = {"resource": resource, "field": field, "code": code}
    if message:
        detail["message"] = message
    return ApiError(422, "Validation Failed", [detail])


def wrong_type(field: str, value: object, wanted: str) -> ApiError:
    """Return a 422: a field has the wrong JSON type."""
    shown = "nil" if value is None else repr(value)[:80]
    return ApiError(422, f"Invalid request.\n\nFor 'properties/{field}', {shown} is not {wanted}.")


def unprocessable(message: str, errors: list[Any] | None = None) -> ApiError:
    """Return a 422: understood and refused."""
    return ApiError(422, message, errors)


_ANSWERS: tuple[tuple[type[errors.GitError], int, str], ...] = (
    (errors.NoSuchObject, 404, "Not Found"),
    (errors.BadName, 422, "Invalid request.\n\nA ref, sha or path is malformed."),
    (errors.NotFastForward, 422, "Update is not a fast forward"),
    (errors.MergeConflict, 409, "Merge conflict"),
    (errors.RefMoved, 409, "The reference was moved by somebody else. Try again."),
    (errors.GitError, 422, "Git cannot do this in the repository's present state."),
)


def api_error_for(error: errors.GitError) -> ApiError:
    """Return the response for a git error; the most specific class decides."""
    status, words = next((s, w) for kind, s, w in _ANSWERS if isinstance(error, kind))
    return ApiError(status, words)
