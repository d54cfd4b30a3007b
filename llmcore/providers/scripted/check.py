"""What the scripted model refuses, in the words OpenAI's API uses for it."""

from __future__ import annotations

from llmcore.messages import JSON

ROLES = ("system", "developer", "user", "assistant", "tool")


class Refused(Exception):
    """The request is refused with this HTTP status."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code


def check_request(data: JSON) -> None:
    """Raise `Refused` for a body that OpenAI would answer with 400.

    Checked is what a runtime gets wrong: the order of calls and their results, an empty list of tools, tools without
    a name, and a `tool_choice` without tools.
    """
    if not isinstance(data, dict):
        raise Refused(400, "The body of the request must be a JSON object.")
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused(400, "Invalid 'messages': expected a non-empty array.", param="messages")
    if "tools" in data and not data["tools"]:
        raise Refused(400, "Invalid 'tools': empty array. Expected an array with minimum length 1.", param="tools")
    if "tool_choice" in data and "tools" not in data:
        raise Refused(400, "'tool_choice' is only allowed when 'tools' are specified.", param="tool_choice")
    for index, tool in enumerate(data.get("tools") or ()):
        if not isinstance(tool, dict) or not isinstance((tool.get("function") or {}).get("name"), str):
            param = f"tools[{index}].function.name"
            raise Refused(400, f"Missing required parameter: '{param}'.", param=param)
    check_messages(messages)


def check_messages(messages: list[JSON]) -> None:
    pending: list[str] = []
    for index, message in enumerate(messages):
        param = f"messages.[{index}]"
        role = message.get("role") if isinstance(message, dict) else None
        if role not in ROLES:
            raise Refused(400, f"Invalid value for 'role': expected one of {', '.join(ROLES)}.", param=f"{param}.role")
        if role == "tool":
            if message.get("tool_call_id") not in pending:
                raise Refused(
                    400,
                    "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
                    param=f"{param}.role",
                )
            pending.remove(message["tool_call_id"])
            continue
        if pending:
            break
        pending = [call.get("id") for call in message.get("tool_calls") or ()]
    if pending:
        unanswered = ", ".join(map(str, pending))
        raise Refused(
            400,
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {unanswered}",
            param="messages",
        )
