"""Tools of MCP servers: what a server lists becomes tools like any other, which call it over one session for each run.

The SDK is imported by `client` alone, and that by the first call of such a tool or the first listing.
"""
