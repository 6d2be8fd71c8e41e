#!/usr/bin/env python3
"""There is nothing to do before encryption."""
