"""The LLM runtime: providers, prompt assembly, tool loop, tools, metering, redaction."""
