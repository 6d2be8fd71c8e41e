"""Operations on vectors in slots: one interface with all bookkeeping, and what interprets it."""
