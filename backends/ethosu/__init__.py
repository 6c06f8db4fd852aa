"""The Ethos-U backend: Arm's NPUs, compiled from TOSA by Vela."""
