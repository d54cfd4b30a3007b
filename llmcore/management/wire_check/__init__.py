"""Replays recorded cases of provider behavior against the adapters, over a real socket."""
