"""Single turns and judgments for other engines: JSON in, JSON out, behind a token."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from functools import wraps
from hashlib import sha256
from typing import Any

from django.http import Http404, HttpRequest, JsonResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt

from llmcore.conf import service_tokens, settings
from llmcore.errors import ConfigurationError, ErrorKind
from llmcore.site_turns import answer_turn, judge_action
from llmcore.turns.request import MAX_NAME, InvalidBody, read_action, read_turn

logger = logging.getLogger(__name__)

View = Callable[[bytes, str], JsonResponse]
# How a turn that failed is told; of all other failures the provider is the cause.
STATUS_OF = {ErrorKind.BUDGET: 429, ErrorKind.BUDGETS_AWAY: 503, ErrorKind.TIMEOUT: 504}


def for_services(view: View) -> Callable[..., JsonResponse]:
    """Lets in who has a token of this site; without one nothing is read, and nothing is told but that.

    A site that has no tokens has no such address. The view gets the body and the session.
    """

    @csrf_exempt
    @wraps(view)
    def guarded(request: HttpRequest, session: str) -> JsonResponse:
        tokens = service_tokens()
        if not tokens:
            raise Http404
        if not is_one_of(bearer(request), tokens):
            logger.warning("%s was asked for without a valid token", view.__name__)
            return refusal(401, "unauthorized", "A valid token is needed.", **{"WWW-Authenticate": "Bearer"})
        if request.method != "POST":
            return refusal(405, "method_not_allowed", "Use POST.", Allow="POST")
        if len(session) > MAX_NAME or not session.isprintable():
            return refusal(400, "invalid_session", f"A session is named in up to {MAX_NAME} printable characters.")
        if request.content_type != "application/json":
            return refusal(415, "unsupported_media_type", "Send application/json.")
        try:
            body = read_body(request)
            if body is None:
                most = settings.LLM_MAX_REQUEST_BYTES
                return refusal(413, "too_large", f"The body may have {most:,} bytes.")
            return view(body, session)
        except InvalidBody as error:
            return refusal(400, "invalid_body", str(error))
        except ConfigurationError as error:
            return refusal(422, "configuration", str(error))

    return guarded


@for_services
def llm_turn(body: bytes, session: str) -> JsonResponse:
    turn = answer_turn(read_turn(body), session=session)
    error = turn.completion.response.error
    status = 200 if error is None else STATUS_OF.get(error.kind, 502)
    return answer({"session": session, **turn.to_json()}, status)


@for_services
def actions(body: bytes, session: str) -> JsonResponse:
    request = read_action(body)
    found = judge_action(request)
    judged, action = found.judged, found.action
    return answer(
        {
            "session": session,
            "name": request.name,
            "ruling": judged.ruling.value if judged else "deny",
            "why": judged.why if judged else found.problem,
            "rule": judged.rule.name if judged and judged.rule else None,
            "action": action.to_json() if action else None,
        },
        200,
    )


def bearer(request: HttpRequest) -> str:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def is_one_of(given: str, tokens: tuple[str, ...]) -> bool:
    """Takes as long whatever was given: digests of one length are compared, with each of the tokens."""
    digest = sha256(given.encode("utf-8", "surrogatepass")).digest()
    matches = [hmac.compare_digest(digest, sha256(token.encode()).digest()) for token in tokens]
    return any(matches)


def read_body(request: HttpRequest) -> bytes | None:
    """The body, `None` where it is too large: then no more of it is read than shows that."""
    most = settings.LLM_MAX_REQUEST_BYTES
    try:
        if int(request.headers.get("Content-Length") or 0) > most:
            return None
        body = request.read(most + 1)
    except ValueError:
        return None
    except UnreadablePostError as error:
        raise InvalidBody("The body could not be read.") from error
    return body if len(body) <= most else None


def refusal(status: int, code: str, message: str, **headers: str) -> JsonResponse:
    return answer({"error": {"kind": code, "message": message}}, status, **headers)


def answer(data: dict[str, Any], status: int, **headers: str) -> JsonResponse:
    return JsonResponse(data, status=status, headers={"Cache-Control": "no-store", **headers})
