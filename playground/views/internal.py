"""Single turns and judgments for other engines: JSON in, JSON out, behind a token."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial, wraps
from hashlib import sha256
from typing import Any

from asgiref.sync import sync_to_async
from django.http import Http404, HttpRequest, JsonResponse, UnreadablePostError
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

from llmcore.actions.policy import Judged, Ruling
from llmcore.conf import service_tokens, settings
from llmcore.database_access import outside_transactions
from llmcore.errors import ConfigurationError, ErrorKind
from llmcore.redaction import Redactor
from llmcore.site_calls import Stop
from llmcore.site_turns import answer_turn, judge_action, secrets_of_site
from llmcore.turns.request import MAX_NAME, InvalidBody, read_action, read_turn
from playground.models import EngineAction
from playground.reading.engine_actions import state_of
from playground.services.propose_engine_action import denied_before, propose_engine_action

logger = logging.getLogger(__name__)

# How a turn that failed is told; of all other failures the provider is the cause.
STATUS_OF = {ErrorKind.BUDGET: 429, ErrorKind.BUDGETS_AWAY: 503, ErrorKind.TIMEOUT: 504}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What a service sent: `session` is without this site's secrets, `body` is yet to be read with `redactor`. `stop`
    is called when the service waits no more."""

    session: str
    body: bytes
    redactor: Redactor
    stop: Stop


View = Callable[..., JsonResponse]


def for_services(method: str) -> Callable[[View], Callable[..., Coroutine[Any, Any, JsonResponse]]]:
    """Lets in who has a token of this site; without one nothing is read, and nothing is told but that.

    A site that has no tokens has no such address. Only a POST has a body.
    """

    def decorate(view: View) -> Callable[..., Coroutine[Any, Any, JsonResponse]]:
        @csrf_exempt
        @outside_transactions
        @wraps(view)
        async def guarded(request: HttpRequest, session: str, **kwargs: Any) -> JsonResponse:
            stop = Stop()
            work = partial(view, **kwargs)
            answering = asyncio.ensure_future(sync_to_async(respond)(work, request, session, method, stop))
            try:
                return await asyncio.shield(answering)
            except asyncio.CancelledError:
                # The service has hung up, which cancels a request under ASGI, or this server is being stopped. What is
                # under way comes to its end on the thread that it has, so that it is counted.
                stop()
                await asyncio.wait([answering])
                raise

        return guarded

    return decorate


def respond(view: View, request: HttpRequest, session: str, method: str, stop: Stop) -> JsonResponse:
    tokens = service_tokens()
    if not tokens:
        raise Http404
    if not is_one_of(bearer(request), tokens):
        logger.warning("a turn or a judgment was asked for without a valid token")
        return refusal(401, "unauthorized", "A valid token is needed.", **{"WWW-Authenticate": "Bearer"})
    if request.method != method:
        return refusal(405, "method_not_allowed", f"Use {method}.", Allow=method)
    if len(session) > MAX_NAME or not session.isprintable():
        return refusal(400, "invalid_session", f"A session is named in up to {MAX_NAME} printable characters.")
    if method == "POST" and request.content_type != "application/json":
        return refusal(415, "unsupported_media_type", "Send application/json.")
    try:
        body = read_body(request) if method == "POST" else b""
        if body is None:
            most = settings.LLM_MAX_REQUEST_BYTES
            return refusal(413, "too_large", f"The body may have {most:,} bytes.")
        redactor = secrets_of_site()
        return view(Asked(session=redactor.known(session), body=body, redactor=redactor, stop=stop))
    except InvalidBody as error:
        return refusal(400, "invalid_body", str(error))
    except ConfigurationError as error:
        return refusal(422, "configuration", str(error))


@for_services("POST")
def llm_turn(asked: Asked) -> JsonResponse:
    request = read_turn(asked.body, redactor=asked.redactor)
    turn = answer_turn(request, session=asked.session, redactor=asked.redactor, stop=asked.stop)
    error = turn.completion.response.error
    status = 200 if error is None else STATUS_OF.get(error.kind, 502)
    return answer({"session": asked.session, **turn.to_json()}, status)


@for_services("POST")
def actions(asked: Asked) -> JsonResponse:
    """What this site says of a call, and where a person has to decide, the proposal that waits for it from now on."""
    request = read_action(asked.body, redactor=asked.redactor)
    found = judge_action(request)
    judged, action = found.judged, found.action
    proposed = None
    if judged is not None and action is not None and judged.ruling is Ruling.AUTO_APPROVE:
        proposed = denied_before(request=request, session=asked.session, action=action)
        if proposed is not None:
            judged = Judged(ruling=Ruling.REQUIRE, why="A person has decided about this call.")
    elif judged is not None and action is not None and judged.ruling is Ruling.REQUIRE:
        proposed = propose_engine_action(
            request=request, session=asked.session, action=action, judged=judged, now=timezone.now()
        )
    return answer(
        {
            "session": asked.session,
            "name": request.name,
            "ruling": judged.ruling.value if judged else "deny",
            "why": judged.why if judged else found.problem,
            "rule": judged.rule.name if judged and judged.rule else None,
            "action": asked.redactor.deep(action.to_json()) if action else None,
            "proposal": state_of(proposed, now=timezone.now()) if proposed else None,
        },
        200,
    )


@for_services("GET")
def action_state(asked: Asked, action_id: int) -> JsonResponse:
    """What became of a proposal; only of one of the same session."""
    found = EngineAction.objects.select_related("decided_by").filter(session=asked.session, pk=action_id).first()
    if found is None:
        return refusal(404, "unknown_action", "This session has proposed no such action.")
    return answer({"session": asked.session, "name": found.tool, **state_of(found, now=timezone.now())}, 200)


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
