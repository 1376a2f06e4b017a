"""What kernels are made of: the one decorator, the cache of what was compiled, and helpers that all families share.

Read kernel.py first: the decorator. cache.py and compiler.py: where compiled kernels are kept, and how they are made.
Random numbers: randomness.py (a sequence) and draws.py (by counter). simd.py: several float64 at once; words.py: eight
bytes at once; frames.py: arguments made ready once; ahead.py: memory asked for early; threads.py: threads of a process.
"""
