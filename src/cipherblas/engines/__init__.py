"""What does the arithmetic keeps what it has encoded here."""
