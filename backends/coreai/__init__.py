"""The Core AI backend: Apple's systems, through coreai-torch."""
