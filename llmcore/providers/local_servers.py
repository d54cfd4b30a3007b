"""The model servers that people run on their own machine: where each listens unless told otherwise, and its start."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalServer:
    """A program that serves models on this machine.

    `path` is where its API begins, `start` says how a person starts it, and `owner` is what it writes as the owner of
    its models, where that tells it from others.
    """

    name: str
    adapter: str
    port: int
    start: str
    host: str = "127.0.0.1"
    path: str = ""
    owner: str = ""

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def base_url(self) -> str:
        return f"http://{self.address}{self.path}"


OLLAMA = LocalServer(name="Ollama", adapter="ollama", port=11434, start="with “ollama serve”")


def _compatible(name: str, port: int, start: str, owner: str = "") -> LocalServer:
    return LocalServer(name=name, adapter="openai_compat", port=port, path="/v1", start=start, owner=owner)


# Sources: the documentation of each program.
LOCAL_SERVERS = (
    OLLAMA,
    _compatible("LM Studio", 1234, "with “lms server start”, or in its tab “Developer”", "organization_owner"),
    _compatible("llama.cpp", 8080, "with “llama-server --model FILE.gguf”", "llamacpp"),
    _compatible("vLLM", 8000, "with “vllm serve MODEL”", "vllm"),
    _compatible("Jan", 1337, "in its settings, under “Local API Server”"),
    _compatible("SGLang", 30000, "with “python -m sglang.launch_server --model-path MODEL”", "sglang"),
    _compatible("text-generation-webui", 5000, "with its option “--api”"),
    _compatible("KoboldCpp", 5001, "with “koboldcpp FILE.gguf”", "koboldcpp"),
    _compatible("GPT4All", 4891, "in its settings, under “Enable Local API Server”"),
)


def start_advice(base_url: str, adapter: str) -> str:
    """How to start the server of this machine that is meant by `base_url`; empty where that isn't known."""
    parts = urlsplit(base_url)
    if not is_loopback(parts.hostname or ""):
        return ""
    known = {server.port: server for server in LOCAL_SERVERS if server.adapter == adapter}
    server = OLLAMA if adapter == OLLAMA.adapter else known.get(parts.port or 80)
    return f"If it doesn't run, start {server.name} {server.start}." if server else ""


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, judged without asking anybody."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
