"""What the README's figures come from: `make bench`, or `make bench ONLY=drain`.

A benchmark is one module of this package with a function `run(stand)` that yields figures; its docstring says what is
measured and what would make it lie. To add one: the file, and a line in `benchmarks/registry.py`.

    harness/      figures and their table, the servers, child processes
    opponents/    what we are measured against
"""
