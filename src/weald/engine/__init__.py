"""Where blocks of rows run: one layer of threads here; other engines keep the same `map`."""

from weald.engine.threads import Threads, one_thread, shards_of

__all__ = ["Threads", "one_thread", "shards_of"]
