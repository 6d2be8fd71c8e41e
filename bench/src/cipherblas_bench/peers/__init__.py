"""Other libraries, measured in the same run as ours. See protocol.py for how they are asked."""

from .process import Peer, PeerError, build_of

__all__ = ["Peer", "PeerError", "build_of"]
