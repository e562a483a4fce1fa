"""Language models on OpenAI-compatible servers: replicas, the choice among them, and the wire to each."""
