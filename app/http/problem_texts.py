"""Titles and advice of each problem code, for responses and `/problems/<code>`."""

from typing import Final

from schemas.problems import ProblemCode

TEXT_OF: Final[dict[ProblemCode, tuple[str, str]]] = {
    ProblemCode.MALFORMED_JSON: (
        "The request cannot be read",
        "Send one JSON value in UTF-8, all of it and without long pauses; `detail` names the broken rule.",
    ),
    ProblemCode.IMAGE_UNDECODABLE: (
        "An image cannot be decoded",
        "Send one still JPEG, PNG or WebP as base64, at most 25 megapixels and 8,000 pixels a side.",
    ),
    ProblemCode.CURSOR_INVALID: (
        "The cursor is not usable",
        "Pass `next_cursor` back unchanged, with the same filters and a key of the same tenant and mode.",
    ),
    ProblemCode.IDEMPOTENCY_KEY_REQUIRED: (
        "The header Idempotency-Key is required",
        "Send a key of your own, the same one when the request is repeated.",
    ),
    ProblemCode.IDEMPOTENCY_KEY_INVALID: (
        "The header Idempotency-Key is not usable",
        "Send 1 to 255 printable ASCII characters, quoted or bare.",
    ),
    ProblemCode.HEADER_DUPLICATED: (
        "A header was given twice",
        "Send Authorization and Idempotency-Key at most once.",
    ),
    ProblemCode.UNAUTHENTICATED: (
        "No usable credentials",
        "Send `Authorization: Bearer <API key>` with a key that is neither revoked nor expired.",
    ),
    ProblemCode.CREDENTIALS_INVALID: ("Sign-in failed", "Check the e-mail address and the password."),
    ProblemCode.MFA_CODE_INVALID: ("The code is not valid", "Wait for the next code and try again."),
    ProblemCode.PERMISSION_DENIED: (
        "Permission denied",
        "The credential is good but lacks the scope or permission that `detail` names.",
    ),
    ProblemCode.MFA_REQUIRED: ("The second factor is missing", "Verify the second factor first."),
    ProblemCode.API_KEY_NOT_ALLOWED: (
        "An API key is not accepted here",
        "Sign in as a reviewer: the route records a person.",
    ),
    ProblemCode.ORIGIN_REFUSED: (
        "The origin is refused",
        "Write from the service's own pages only, and over https where that is the service's address.",
    ),
    ProblemCode.NOT_FOUND: (
        "Not found",
        "No such route, or no such thing for this caller; what was erased is gone.",
    ),
    ProblemCode.METHOD_NOT_ALLOWED: ("Method not allowed", "Use one of the methods in the header Allow."),
    ProblemCode.FLOW_ARCHIVED: ("The flow is archived", "Duplicate it and publish the copy."),
    ProblemCode.CASE_ALREADY_CONCLUDED: ("The case is concluded", "Read its conclusion."),
    ProblemCode.SECOND_REVIEWER_MUST_DIFFER: ("A second person must conclude", "Ask a colleague."),
    ProblemCode.EVIDENCE_NOT_VIEWED: ("The evidence was not viewed", "View every image first."),
    ProblemCode.NO_REFERENCE_FACE: (
        "There is no face to compare with",
        "Verify the subject with a document first.",
    ),
    ProblemCode.CONSENT_REQUIRED: ("Consent is missing", "Record the subject's consent first."),
    ProblemCode.SESSION_FINISHED: ("The session is finished", "Open a new one."),
    ProblemCode.CHALLENGE_OVER: (
        "The movements are over, or another one is asked for",
        "Draw new ones with POST /v1/capture/challenge, or go on with POST /v1/capture/challenge/skip.",
    ),
    ProblemCode.FLOW_NOT_PUBLISHED: ("The flow is not published", "Publish it first."),
    ProblemCode.CASE_CLAIMED: ("The case is claimed", "Wait for the lease to end or ask its holder."),
    ProblemCode.CAPABILITY_EXISTS: ("The capability exists", "Change the entry instead."),
    ProblemCode.MEMBER_EXISTS: ("The member exists", "Change the member instead."),
    ProblemCode.SUBJECT_NOT_SUSPENDED: (
        "The subject is not suspended",
        "Nothing has to be lifted; read the subject's state.",
    ),
    ProblemCode.LEGAL_HOLD: ("A legal hold forbids it", "Lift the hold first."),
    ProblemCode.LIST_IN_USE: (
        "The published policy names the list",
        "Publish a policy that does not name it first.",
    ),
    ProblemCode.LIST_NAME_TAKEN: ("The deployment has a list of this name", "Choose another name."),
    ProblemCode.LIST_GUARD_REFUSED: (
        "The list differs too much from the last one",
        "Look at the file; `force=true` takes it all the same.",
    ),
    ProblemCode.PRECONDITION_FAILED: ("It was changed meanwhile", "Read it again and repeat the change."),
    ProblemCode.PRECONDITION_REQUIRED: (
        "The header If-Match is required",
        "Send the ETag of what you read.",
    ),
    ProblemCode.PAYLOAD_TOO_LARGE: (
        "The request is too large",
        "An image may have 10 MB decoded, a verification request 28 MiB, any other 1 MiB.",
    ),
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: (
        "The content type is not accepted",
        "Send `Content-Type: application/json`.",
    ),
    ProblemCode.VALIDATION_FAILED: (
        "The request is not valid",
        "`errors` names each place that is wrong and why.",
    ),
    ProblemCode.CAPABILITY_UNKNOWN: ("A capability is unknown", "Take codes from the catalogue."),
    ProblemCode.CAPABILITY_DISABLED: ("A capability is disabled", "Choose an enabled one."),
    ProblemCode.DOCUMENTS_NOT_ALLOWED: ("Documents are not allowed", "A BIOMETRIC flow names none."),
    ProblemCode.DOCUMENTS_REQUIRED: ("Documents are required", "Name at least one capability."),
    ProblemCode.RETURN_URL_INVALID: ("The return URL is not usable", "Use https with a host."),
    ProblemCode.IMAGE_NOT_EVALUABLE: (
        "An image cannot be evaluated",
        "Take the picture again: one face on the selfie, the shorter side at least 160 pixels.",
    ),
    ProblemCode.DOCUMENT_UNUSABLE: (
        "The document image shows no document",
        "Take a picture of the document's data page.",
    ),
    ProblemCode.WEBHOOK_ENDPOINT_UNUSABLE: ("The endpoint is not usable", "`errors` says why."),
    ProblemCode.FILTER_INVALID: (
        "A query parameter is not valid",
        "`errors` names each parameter that is unknown, repeated or malformed.",
    ),
    ProblemCode.IDEMPOTENCY_KEY_REUSED: (
        "The Idempotency-Key belongs to another request",
        "Use a new key for a new request; the same key repeats the same body.",
    ),
    ProblemCode.ADDRESS_INVALID: ("The address is not valid", "`detail` names the rule that failed."),
    ProblemCode.POLICY_INVALID: (
        "The policy does not load",
        "`errors` names every error with its rule, pointer, line and column.",
    ),
    ProblemCode.LIST_INVALID: (
        "The list cannot be read",
        "`errors` names the entries that are wrong, and where they stand; nothing was changed.",
    ),
    ProblemCode.RATE_LIMITED: ("Too many requests", "Wait as long as Retry-After says."),
    ProblemCode.STORE_FAILED: (
        "The request could not be carried out",
        "Repeat it with the same Idempotency-Key; name the request id when it persists.",
    ),
    ProblemCode.STORE_UNAVAILABLE: (
        "A store cannot be reached",
        "Repeat the request after Retry-After; nothing was lost.",
    ),
    ProblemCode.DECISION_PENDING: (
        "The decision is not there yet",
        "Repeat the request if it had an Idempotency-Key; else read `verification_id`, 404 until decided.",
    ),
    ProblemCode.OVERLOADED: ("Too much is under way", "Repeat the request after Retry-After."),
}
"""Title and advice of each code."""


def kebab(code: ProblemCode) -> str:
    """Return the last part of the code's address: lower case, words joined by hyphens."""
    return code.lower().replace("_", "-")


def problem_type(base_url: str, code: ProblemCode) -> str:
    """Return the URL in `type` (G58)."""
    return f"{base_url}/problems/{kebab(code)}"
