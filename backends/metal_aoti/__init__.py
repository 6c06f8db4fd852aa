"""The Metal backend of torch's AOTInductor: Apple GPUs."""
