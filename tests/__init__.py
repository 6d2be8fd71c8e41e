"""What tests share: `tests.support`; programs whose plans are stored: `tests.corpus`."""
