"""A product on several ranks: blocks, grids of ranks, and what each rank computes, holds and sends."""
