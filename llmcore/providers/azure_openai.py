"""Azure OpenAI: Chat Completions at an endpoint of one's own, where the model's name is that of a deployment."""

from __future__ import annotations

from urllib.parse import quote

from llmcore.configuration import Provider, Secret
from llmcore.providers import derived_schemas, prompt_cache
from llmcore.providers.base import ModelCall
from llmcore.providers.openai_chat import Dialect, OpenAIChat

AZURE_OPENAI = Dialect(
    name="azure_openai",
    label="Azure OpenAI",
    max_tokens_field="max_completion_tokens",
    returns_thinking=False,
    max_id_chars=40,
    cache=prompt_cache.OPENAI,
    schemas=derived_schemas.OPENAI_STRICT,
)


class AzureOpenAI(OpenAIChat):
    """The wire format of Azure OpenAI.

    The base URL is the resource's endpoint. With an API version it is the classic address of a deployment, without one
    the newer address that has no versions.
    """

    def __init__(self) -> None:
        super().__init__(AZURE_OPENAI)

    def url(self, call: ModelCall) -> str:
        base_url = self.base_url(call.provider)
        if call.provider.api_version:
            endpoint = base_url.removesuffix("/v1").removesuffix("/openai")
            deployment, version = quote(call.model.name, safe=""), quote(call.provider.api_version, safe="")
            return f"{endpoint}/openai/deployments/{deployment}/chat/completions?api-version={version}"
        return base_url + ("" if base_url.endswith("/v1") else "/openai/v1") + "/chat/completions"

    def listing_base_url(self, provider: Provider) -> str:
        return self.base_url(provider).removesuffix("/v1").removesuffix("/openai") + "/openai/v1"

    def key_header(self, key: Secret) -> dict[str, tuple[str, Secret]]:
        return {"api-key": ("", key)}
