"""Operations on matrices that are encrypted by rows: one interface, and what interprets it."""
