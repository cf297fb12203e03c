"""The closed list of problem codes (G59, G85), and the errors that carry them."""

from http import HTTPStatus
from typing import Final

from schemas.base import Frozen
from schemas.enums import TextEnum
from schemas.ids import KeyId, TenantId, VerificationId


class ProblemCode(TextEnum):
    """The problem code, for programs; the list is closed."""

    MALFORMED_JSON = "MALFORMED_JSON"
    IMAGE_UNDECODABLE = "IMAGE_UNDECODABLE"
    CURSOR_INVALID = "CURSOR_INVALID"
    IDEMPOTENCY_KEY_REQUIRED = "IDEMPOTENCY_KEY_REQUIRED"
    IDEMPOTENCY_KEY_INVALID = "IDEMPOTENCY_KEY_INVALID"
    HEADER_DUPLICATED = "HEADER_DUPLICATED"
    UNAUTHENTICATED = "UNAUTHENTICATED"
    CREDENTIALS_INVALID = "CREDENTIALS_INVALID"
    MFA_CODE_INVALID = "MFA_CODE_INVALID"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    MFA_REQUIRED = "MFA_REQUIRED"
    API_KEY_NOT_ALLOWED = "API_KEY_NOT_ALLOWED"
    ORIGIN_REFUSED = "ORIGIN_REFUSED"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    FLOW_ARCHIVED = "FLOW_ARCHIVED"
    CASE_ALREADY_CONCLUDED = "CASE_ALREADY_CONCLUDED"
    SECOND_REVIEWER_MUST_DIFFER = "SECOND_REVIEWER_MUST_DIFFER"
    EVIDENCE_NOT_VIEWED = "EVIDENCE_NOT_VIEWED"
    NO_REFERENCE_FACE = "NO_REFERENCE_FACE"
    CONSENT_REQUIRED = "CONSENT_REQUIRED"
    SESSION_FINISHED = "SESSION_FINISHED"
    CHALLENGE_OVER = "CHALLENGE_OVER"
    FLOW_NOT_PUBLISHED = "FLOW_NOT_PUBLISHED"
    CASE_CLAIMED = "CASE_CLAIMED"
    CAPABILITY_EXISTS = "CAPABILITY_EXISTS"
    MEMBER_EXISTS = "MEMBER_EXISTS"
    SUBJECT_NOT_SUSPENDED = "SUBJECT_NOT_SUSPENDED"
    LEGAL_HOLD = "LEGAL_HOLD"
    LIST_IN_USE = "LIST_IN_USE"
    LIST_NAME_TAKEN = "LIST_NAME_TAKEN"
    LIST_GUARD_REFUSED = "LIST_GUARD_REFUSED"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"
    PRECONDITION_REQUIRED = "PRECONDITION_REQUIRED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    UNSUPPORTED_MEDIA_TYPE = "UNSUPPORTED_MEDIA_TYPE"
    VALIDATION_FAILED = "VALIDATION_FAILED"
    CAPABILITY_UNKNOWN = "CAPABILITY_UNKNOWN"
    CAPABILITY_DISABLED = "CAPABILITY_DISABLED"
    DOCUMENTS_NOT_ALLOWED = "DOCUMENTS_NOT_ALLOWED"
    DOCUMENTS_REQUIRED = "DOCUMENTS_REQUIRED"
    RETURN_URL_INVALID = "RETURN_URL_INVALID"
    IMAGE_NOT_EVALUABLE = "IMAGE_NOT_EVALUABLE"
    DOCUMENT_UNUSABLE = "DOCUMENT_UNUSABLE"
    WEBHOOK_ENDPOINT_UNUSABLE = "WEBHOOK_ENDPOINT_UNUSABLE"
    FILTER_INVALID = "FILTER_INVALID"
    IDEMPOTENCY_KEY_REUSED = "IDEMPOTENCY_KEY_REUSED"
    ADDRESS_INVALID = "ADDRESS_INVALID"
    POLICY_INVALID = "POLICY_INVALID"
    LIST_INVALID = "LIST_INVALID"
    RATE_LIMITED = "RATE_LIMITED"
    STORE_FAILED = "STORE_FAILED"
    STORE_UNAVAILABLE = "STORE_UNAVAILABLE"
    DECISION_PENDING = "DECISION_PENDING"
    OVERLOADED = "OVERLOADED"


_STATUS_GROUPS: Final = (
    (HTTPStatus.BAD_REQUEST, "MALFORMED_JSON", "HEADER_DUPLICATED"),
    (HTTPStatus.UNAUTHORIZED, "UNAUTHENTICATED", "MFA_CODE_INVALID"),
    (HTTPStatus.FORBIDDEN, "PERMISSION_DENIED", "ORIGIN_REFUSED"),
    (HTTPStatus.NOT_FOUND, "NOT_FOUND", "NOT_FOUND"),
    (HTTPStatus.METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", "METHOD_NOT_ALLOWED"),
    (HTTPStatus.CONFLICT, "FLOW_ARCHIVED", "LIST_GUARD_REFUSED"),
    (HTTPStatus.PRECONDITION_FAILED, "PRECONDITION_FAILED", "PRECONDITION_FAILED"),
    (HTTPStatus.PRECONDITION_REQUIRED, "PRECONDITION_REQUIRED", "PRECONDITION_REQUIRED"),
    (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "PAYLOAD_TOO_LARGE", "PAYLOAD_TOO_LARGE"),
    (HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "UNSUPPORTED_MEDIA_TYPE", "UNSUPPORTED_MEDIA_TYPE"),
    (HTTPStatus.UNPROCESSABLE_ENTITY, "VALIDATION_FAILED", "LIST_INVALID"),
    (HTTPStatus.TOO_MANY_REQUESTS, "RATE_LIMITED", "RATE_LIMITED"),
    (HTTPStatus.INTERNAL_SERVER_ERROR, "STORE_FAILED", "STORE_FAILED"),
    (HTTPStatus.SERVICE_UNAVAILABLE, "STORE_UNAVAILABLE", "OVERLOADED"),
)


def _statuses() -> dict[ProblemCode, HTTPStatus]:
    codes = list(ProblemCode)
    return {
        code: status
        for status, first, last in _STATUS_GROUPS
        for code in codes[codes.index(ProblemCode(first)) : codes.index(ProblemCode(last)) + 1]
    }


STATUS_OF: Final = _statuses()
"""The one status of each code."""


class FieldProblem(Frozen):
    """What is wrong with one part of a request: exactly one of pointer, parameter or header names it."""

    code: ProblemCode
    message: str
    pointer: str | None = None
    """JSON pointer into the body (RFC 6901)."""
    parameter: str | None = None
    header: str | None = None
    rule: str | None = None
    """Which rule of the text's language is broken, or the rule an address fails, where the code has several
    (G111, G123)."""
    line: int | None = None
    """Counted from 1, for a body of lines (G111)."""
    column: int | None = None
    """Counted from 1 in characters, with `line`."""


class Refusal(Frozen):
    """The answer to a command that cannot be carried out; it created nothing."""

    code: ProblemCode
    detail: str
    errors: tuple[FieldProblem, ...] = ()


class VeristreamError(Exception):
    """Base class of the service's errors."""


class Refused(VeristreamError):
    """A request or command is refused; `refusal` says why in the caller's words."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal

    @classmethod
    def because(cls, code: ProblemCode, detail: str, *errors: FieldProblem) -> "Refused":
        """Build the error from its parts."""
        return cls(Refusal(code=code, detail=detail, errors=errors))

    @classmethod
    def at(cls, pointer: str, code: ProblemCode, message: str) -> "Refused":
        """Build the error of one place in the body."""
        return cls.because(code, message, FieldProblem(code=code, message=message, pointer=pointer))


class NotFound(VeristreamError):
    """No such thing for this tenant; another tenant's thing is the same."""


class StoreUnavailable(VeristreamError):
    """A store or broker cannot be reached for now; the outcome of the call is unknown."""


class DecisionPending(VeristreamError):
    """The answer did not come in time; the same key finds it later (G2)."""

    def __init__(self, verification_id: VerificationId | None = None) -> None:
        super().__init__("the answer did not come in time")
        self.verification_id = verification_id
        """What will be decided, when it is a verification; it can be read then (R8)."""


class Unauthenticated(VeristreamError):
    """No usable credential was presented; which part was wrong is not disclosed."""


class KeyRefused(Unauthenticated):
    """A valid key was presented that may not be used now, or not from there; the caller gets no details."""

    def __init__(self, tenant_id: TenantId, key_id: KeyId, *, livemode: bool) -> None:
        super().__init__("the API key is not accepted")
        self.tenant_id = tenant_id
        self.key_id = key_id
        self.livemode = livemode


class Overloaded(VeristreamError):
    """Too much is under way; the same request may be sent again after a moment."""

    def __init__(self, message: str = "", *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """When there will be room, in whole seconds; None when it is not known."""


class ImageUndecodable(VeristreamError):
    """The bytes are not one still image of an accepted format within the limits (G61)."""


class ImageNotEvaluable(VeristreamError):
    """The image decodes, but there is nothing in it to evaluate (G60)."""


class EngineFailed(VeristreamError):
    """A model failed, timed out or returned an invalid result; no verdict may depend on it."""
