"""The error tree: each class out as a problem document, and back as itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_round.contract.errors import (
    REFUSALS,
    CannotVerify,
    ConnectionFailed,
    DeadlineExceeded,
    Fault,
    ForeignOrigin,
    InvalidDescriptor,
    NotOffered,
    RequestRefused,
    TensorRoundError,
    TensorTooLarge,
    UnknownRefusal,
    from_problem,
    problem,
)

# The published contract's table of statuses and codes.
CODES = {
    400: "missing_descriptor duplicate_descriptor malformed_json payload_size_mismatch "
    "malformed_npy malformed_encoding digest_mismatch invalid_host",
    401: "unauthorized",
    404: "not_found",
    405: "method_not_allowed",
    408: "receive_timeout",
    413: "tensor_too_large",
    415: "unsupported_media_type unsupported_encoding",
    421: "misdirected_host",
    422: "invalid_descriptor",
    431: "headers_too_large",
    500: "internal_error",
    501: "unimplemented",
    503: "overloaded draining device_out_of_memory backend_failed",
}
PUBLISHED = {code: status for status, codes in CODES.items() for code in codes.split()}


each_kind = pytest.mark.parametrize("kind", REFUSALS.values(), ids=REFUSALS)


def carried(refusal: RequestRefused, retry_after: float | None = None) -> RequestRefused:
    """The refusal after a journey as JSON."""
    document = json.loads(json.dumps(problem(refusal)))
    return from_problem(document, status=refusal.status, retry_after=retry_after)


def test_the_codes_and_statuses_are_the_published_ones() -> None:
    assert {code: kind.status for code, kind in REFUSALS.items()} == PUBLISHED


@each_kind
def test_each_class_comes_back_as_itself(kind: type[RequestRefused]) -> None:
    faults = (Fault(("input", "shape", 2), "too long"), Fault((), "and more"))
    refusal = kind("what went wrong", faults=faults)

    back = carried(refusal, retry_after=1.5)

    assert type(back) is kind
    assert (back.detail, str(back), back.faults) == ("what went wrong",) * 2 + (faults,)
    assert (back.status, back.code, back.retry_after) == (kind.status, kind.code, 1.5)
    assert (kind.__doc__ or "").strip().endswith(".")
    assert kind.transient == (kind.status in (408, 503))
    # The members of RFC 9457, and ours.
    document = problem(kind("why"))
    assert list(document)[:5] == ["type", "title", "status", "detail", "code"]
    assert document["type"] == f"/docs/errors#{kind.code}"
    assert document["title"] == kind.title != RequestRefused.title
    assert document["detail"] == "why"
    assert "errors" not in document


@pytest.mark.parametrize("got", [None, 0, 2**70], ids=["undeclared", "0", "2^70"])
def test_a_tensor_too_large_carries_both_sizes(got: int | None) -> None:
    refusal = TensorTooLarge("too large", limit_bytes=1 << 30, got_bytes=got)

    assert problem(refusal)["limit_bytes"] == 1 << 30
    assert problem(refusal)["got_bytes"] == got
    back = carried(refusal)
    assert isinstance(back, TensorTooLarge)
    assert (back.limit_bytes, back.got_bytes) == (1 << 30, got)


def test_faults_are_written_as_paths_and_joined_in_the_detail() -> None:
    faults = [Fault(("desc", "InputTensor", "Sizes", 2), "is 0"), Fault((), "and 3 more errors")]

    refusal = InvalidDescriptor.of(faults)

    assert refusal.detail == "desc.InputTensor.Sizes.2: is 0; and 3 more errors"
    assert problem(refusal)["errors"] == [
        {"loc": ["desc", "InputTensor", "Sizes", 2], "msg": "is 0"},
        {"loc": [], "msg": "and 3 more errors"},
    ]
    assert InvalidDescriptor.at(faults[0].loc, "is 0").faults == (faults[0],)


# document, status -> the code kept, whether worth another try
FOREIGN: dict[str, tuple[dict[str, Any], int, str, bool]] = {
    "a code of a later version": ({"code": "too_pretty", "detail": "x"}, 418, "too_pretty", False),
    "a known code with another status": ({"code": "not_found"}, 503, "not_found", True),
    "no document": ({}, 502, "", True),
    "a proxy's": ({"error": "bad gateway"}, 504, "", True),
    "rate limited": ({}, 429, "", True),
    "a code of another type": ({"code": 7}, 400, "", False),
    "a code that cannot be a key": ({"code": ["not_found"]}, 404, "", False),
}


@pytest.mark.parametrize(("document", "status", "code", "transient"), FOREIGN.values(), ids=FOREIGN)
def test_unknown_refusal_keeps_its_status(
    document: dict[str, Any], status: int, code: str, transient: bool
) -> None:
    refusal = from_problem(document, status=status)

    assert type(refusal) is UnknownRefusal
    assert (refusal.status, refusal.code, refusal.transient) == (status, code, transient)
    assert refusal.detail in (document.get("detail"), f"HTTP status {status}")


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
PROBLEMS = st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from(sorted(REFUSALS)) | JSON,
        "detail": JSON,
        "errors": JSON | st.lists(st.fixed_dictionaries({"loc": JSON, "msg": JSON})),
        "limit_bytes": JSON,
        "got_bytes": JSON,
    },
)


@given(PROBLEMS, st.integers(400, 599))
def test_any_document_is_some_refusal(document: dict[str, Any], status: int) -> None:
    refusal = from_problem(document, status=status)

    assert refusal.status == status
    assert isinstance(refusal.detail, str)
    assert json.dumps(problem(refusal))


def test_an_error_says_its_detail_and_can_be_restated() -> None:
    error = TensorRoundError("it failed")
    assert (str(error), error.detail, error.request_id) == ("it failed", "it failed", None)
    error.restate("it failed twice")
    assert (str(error), error.detail) == ("it failed twice", "it failed twice")


def test_error_classes_have_defaults() -> None:
    for kind in (TensorRoundError, ConnectionFailed, DeadlineExceeded, RequestRefused):
        assert (kind.is_foreign, kind.is_unavailable) == (False, False)
        assert kind.transient == (kind is ConnectionFailed)


def test_refusals_of_the_inference_protocol_alone_have_statuses_of_their_own() -> None:
    assert (ForeignOrigin.status, NotOffered.status) == (403, 501)


def test_why_nothing_can_be_verified_is_on_one_line() -> None:
    alone, caused = CannotVerify("no\nruntime"), CannotVerify("it failed", "out of\nmemory")
    assert (str(alone), alone.detail, alone.reason) == ("no runtime",) * 3
    assert (str(caused), caused.reason) == ("it failed", "out of memory")


def test_sizes_and_statuses_that_nobody_stated_are_0() -> None:
    assert TensorTooLarge("too large").extensions() == {"limit_bytes": 0, "got_bytes": None}
    assert UnknownRefusal("odd").status == 0
    foreign = {"code": "tensor_too_large", "limit_bytes": "many", "got_bytes": "more"}
    assert from_problem(foreign, status=413).extensions() == {"limit_bytes": 0, "got_bytes": None}
