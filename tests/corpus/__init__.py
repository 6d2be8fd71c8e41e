"""Programs of every kind with all that is planned for them on one made-up machine, stored and compared.

`programs` is what is compiled, `machine` what it is compiled for, `facts` what is written down of a plan, `storage` the
file. `python -m tests.corpus` writes the file anew: see CONTRIBUTING.md.
"""
