"""Who does the arithmetic on encrypted data, and what it keeps of what it has encoded."""
