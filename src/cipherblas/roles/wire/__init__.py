"""What client and server send each other, and how it is stored."""
