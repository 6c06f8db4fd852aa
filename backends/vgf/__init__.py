"""The VGF backend: Arm's ML extensions for Vulkan, compiled from TOSA."""
