"""The last module the fork server of `tests/prefork.py` imports: it leaves those who are forked less to do.

What was imported is never garbage: a process that collects garbage, as each role does at its start, would
look through several hundred thousand objects, and copy every page they lie on. And `inspect` finds the file
of each module once: a worker asks for that of every agent.
"""

import gc
import inspect

inspect.getmodule(inspect.currentframe())
gc.collect()
gc.freeze()
