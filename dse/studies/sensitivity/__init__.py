"""What a latency owes to each number of its GPU."""
