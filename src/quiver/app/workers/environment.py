"""What a process must have in its environment before it imports numpy and Arrow, if it is to fork workers.

Imports nothing, so that it can be used first.
"""

WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
"""Both libraries start a thread of their own otherwise, which a forked worker would lack."""
