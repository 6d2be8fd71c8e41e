"""What several test folders use: runs of programs, samples, independent arithmetic, documents and rooms as data.

Encrypted programs from `compile` to `decrypt` go by `runs`, in the clear by `clear_runs`; methods alone go by
`product_runs` and `layer_runs`.
"""
