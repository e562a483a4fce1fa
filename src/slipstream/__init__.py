"""Slipstream: a RAG agent server for many users at once, built so that nobody waits."""

import os

# Read by numpy when it is first imported. Its matrix products here are small and run on workers: shared between
# threads they are no faster, and on a busy machine wait for one another up to a hundred times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
